//! The guests: built from source, or made from text.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use stepwell_build::BuildOptions;
use wit_component::{StringEncoding, embed_component_metadata};

const TYPESCRIPT: &str = include_str!("../guests/bench.ts");
const WAT: &str = include_str!("../guests/steps.wat");

/// A component, and how its workflow of computing steps is started.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) name: &'static str,
    pub(crate) component: Vec<u8>,
    pub(crate) compute: &'static str,
    input: fn(u32) -> String,
    /// The input of its workflow `post`, where it has one.
    post: Option<fn(u32, &str) -> String>,
}

impl Guest {
    /// The input for so many steps.
    pub(crate) fn input(&self, steps: u32) -> String {
        (self.input)(steps)
    }

    /// The input for so many steps that each post to this URL; nothing for a guest that has no such workflow.
    pub(crate) fn posting(&self, steps: u32, url: &str) -> Option<String> {
        self.post.map(|input| input(steps, url))
    }
}

/// Writes the TypeScript source down and builds it.
pub(crate) fn typescript(dir: &Path) -> Result<Guest> {
    let file = dir.join("bench.ts");
    std::fs::write(&file, TYPESCRIPT)?;
    let built = stepwell_build::build(&file, &BuildOptions::default(), &|_| {})?;
    let post = |steps, url: &str| format!("{{\"steps\":{steps},\"url\":\"{url}\"}}");
    Ok(Guest { name: "ts", component: built.component, compute: "compute", input: with_steps, post: Some(post) })
}

/// A few instructions, as text.
pub(crate) fn text() -> Result<Guest> {
    let mut core = wat::parse_str(WAT)?;
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-sdk/wit"))?;
    let world = resolve.select_world(&[package], Some("workflow"))?;
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8)?;
    let component = stepwell_build::embed_core_module(&core)?;
    let post = |steps, url: &str| format!("[{steps},\"{url}\"]");
    Ok(Guest { name: "wat", component, compute: "steps", input: |steps| steps.to_string(), post: Some(post) })
}

/// A component that was made from Rust elsewhere.
pub(crate) fn rust(file: &Path) -> Result<Guest> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let component = match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => stepwell_build::embed_core_module(&bytes)?,
        _ => bytes,
    };
    Ok(Guest { name: "rust", component, compute: "compute", input: with_steps, post: None })
}

/// The guest in Rust that the tests have, built as they build it. An error says what that would need.
pub(crate) fn rust_of_the_tests() -> Result<Guest> {
    // It is made for tests and panics where it cannot be built; that is told in a note, not as a panic.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let built = std::panic::catch_unwind(stepwell_tests::rust_core_module);
    std::panic::set_hook(hook);
    let file = built.map_err(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
        anyhow!("{}", text.unwrap_or("its build panicked"))
    })?;
    let component = stepwell_build::embed_core_module(&std::fs::read(file)?)?;
    Ok(Guest { name: "rust", component, compute: "sequential", input: |steps| steps.to_string(), post: None })
}

fn with_steps(steps: u32) -> String {
    format!("{{\"steps\":{steps}}}")
}
