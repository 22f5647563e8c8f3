//! The embedded JavaScript SDK: what `import ... from "stepwell"` means, and the module that joins it to the user's.

/// Path under `guest-sdk/js/src` and text of each file.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));

/// What the names of its modules begin with, also in stack traces.
const PREFIX: &str = "stepwell:sdk/";

/// The name of the generated entry module.
pub(crate) const ENTRY: &str = "stepwell:entry";

/// `log`'s message that carries what top-level code threw, as JSON in its fields.
pub(crate) const THROWN: &str = "stepwell:thrown";

/// All files, for the cache's key.
pub(crate) fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

/// The text of an SDK module.
pub(crate) fn load(name: &str) -> Option<&'static str> {
    let path = name.strip_prefix(PREFIX)?;
    FILES.iter().find(|(file, _)| *file == path).map(|(_, text)| *text)
}

/// The module that `specifier` names: the SDK itself, or one of its files as seen from another.
pub(crate) fn resolve(referrer: &str, specifier: &str) -> Option<String> {
    if specifier == "stepwell" {
        return Some(format!("{PREFIX}index.js"));
    }
    let from = referrer.strip_prefix(PREFIX)?;
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(format!("{PREFIX}{}", parts.join("/")))
}

/// The module that QuickJS evaluates: the SDK first, since it installs the globals, then the user's entry, inside an import
/// that can be caught, since the runtime itself would report a thrown value without its type, its causes or its properties.
pub(crate) fn entry_module(user_entry: &str) -> String {
    let user_entry = serde_json::Value::from(user_entry);
    format!(
        r#"import commands from "stepwell:workflow/commands@0.1.0";
import {{ guest }} from "stepwell";

function text(value) {{
  try {{ return typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value); }}
  catch {{ return "a value that cannot be shown"; }}
}}
function report(error) {{
  const isError = error instanceof Error;
  const causes = [];
  for (let cause = error?.cause; cause !== undefined && cause !== null && causes.length < 16; cause = cause.cause)
    causes.push(cause instanceof Error ? `${{cause.name}}: ${{cause.message}}` : text(cause));
  const name = isError ? text(error.name) : null;
  const message = isError ? text(error.message) : text(error) ?? "undefined";
  const stack = isError && typeof error.stack === "string" ? error.stack : "";
  commands.log("error", "{THROWN}", JSON.stringify({{ name, message, stack, causes }}));
}}

try {{
  await import({user_entry});
  // Promises that top-level code began and did not await get their turns, so that what they print is not lost.
  for (let turn = 0; turn < 256; turn += 1) await undefined;
}} catch (error) {{
  report(error);
  throw error;
}}

export const workflows = guest;
"#
    )
}
