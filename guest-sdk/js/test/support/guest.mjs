// Loads the SDK and a workflow's source into a fresh realm that has the language's own globals and nothing else, like the
// engine the SDK is made for, and gives it the contract's imports.

import { readFile } from "node:fs/promises";
import vm from "node:vm";

const SDK = new URL("../../src/", import.meta.url);
/// As its files are named in the engine's stack traces.
const SDK_NAME = "stepwell:sdk/";

/// `imports` are the objects `commands` and `turns`; without `base64` the realm is that of an engine that has none. Answers
/// `{ guest, globals, sdk }`.
export async function loadGuest(source, imports, { base64 = true } = {}) {
  // DOMException is among the engine's own globals.
  const context = vm.createContext({ DOMException });
  if (base64) giveBase64(context);
  const modules = new Map();
  const synthetic = (name, value) =>
    new vm.SyntheticModule(["default"], function () { this.setExport("default", value); }, { context, identifier: name });
  modules.set("stepwell:workflow/commands@0.1.0", synthetic("commands", imports.commands));
  modules.set("stepwell:workflow/turns@0.1.0", synthetic("turns", imports.turns));

  const load = (url) => {
    const name = url.replace(SDK.href, SDK_NAME);
    if (!modules.has(url)) modules.set(url, readFile(new URL(url), "utf8").then((text) => sourceModule(text, name, context)));
    return modules.get(url);
  };
  const link = (specifier, referrer) => {
    if (modules.has(specifier)) return modules.get(specifier);
    if (specifier === "stepwell") return load(new URL("index.js", SDK).href);
    return load(new URL(specifier, referrer.identifier.replace(SDK_NAME, SDK.href)).href);
  };
  const sdk = await load(new URL("index.js", SDK).href);
  await sdk.link(link);
  await sdk.evaluate();
  const user = sourceModule(source, "test:workflow.js", context);
  await user.link(link);
  await user.evaluate();
  return { guest: sdk.namespace.guest, globals: context, sdk: sdk.namespace };
}

function sourceModule(source, identifier, context) {
  return new vm.SourceTextModule(source, { identifier, context });
}

/// What the engine has of its own and Node 20 has not.
function giveBase64(context) {
  Object.assign(context, { atob, btoa });
  const Bytes = vm.runInContext("Uint8Array", context);
  Bytes.fromBase64 ??= (text) => new Bytes(Buffer.from(text, "base64"));
  Bytes.prototype.toBase64 ??= function () {
    return Buffer.from(this.buffer, this.byteOffset, this.byteLength).toString("base64");
  };
}
