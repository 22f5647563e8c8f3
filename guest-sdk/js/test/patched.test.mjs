// Whatever the author's code makes of the language's own functions, the SDK goes on as before.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

/// A workflow that uses all that a run needs, once its first line has patched something.
const HANDLER = (patch) => `async ({ input, step, sleep, waitForEvent, log }) => {
  ${patch}
  const charge = step.run("charge", async ({ http, delay, signal }) => {
    await delay("5 ms");
    const answer = await http.post("https://pay.example/a/../charges?x=1", { json: { order: input.order }, query: { q: "a b" }, headers: { "X-A": "b" } }).ensureOk();
    return { id: (await answer.json()).id, aborted: AbortSignal.any([signal]).aborted };
  }, { retry: { maxAttempts: 3 } });
  const quick = step.run("quick", () => 1);
  const all = [await charge, await quick];
  log("paid", { order: input.order });
  console.log("%s and %d", "text", 5, new Error("shown"));
  const first = await race([sleep("1 h"), waitForEvent("go")]);
  setTimeout(() => {}, 5);
  let caught = null;
  try {
    await step.run("refused", () => { throw new NonRetriableError("no", { code: "shop.no", details: { why: 1 }, cause: new TypeError("inner") }); });
  } catch (error) {
    caught = { code: error.code, details: error.details, cause: error.cause.message, is: error instanceof StepError };
  }
  step.run("forgotten", () => 1);
  return { charge: all[0], quick: all[1], first, caught };
}`;

async function play(patch) {
  const run = await started(HANDLER(patch), { input: { order: "o1" } });
  await run.attempt(0);
  await run.attempt(1);
  await run.complete(1, 1);
  await run.elapse(0);
  await run.respond(1, 201, { id: "ch_1" }, [["content-type", "application/json"]]);
  assert.equal(run.finished(0).tag, "ok", run.finished(0).val.message);
  await run.complete(0, JSON.parse(run.finished(0).val));
  await run.complete(3, "came");
  await run.attempt(5);
  const { code, message, details, causes } = run.finished(5).val;
  await run.fail(5, { code, message, details, causes: causes.map(({ name, message }) => ({ name, message })), retry: "never" });
  return { outcome: run.outcome, logs: run.logs.map((line) => line.replace(/\n[^]*/, "")), story: run.story(), sent: run.made("httpSend") };
}

/// Patches every method of a prototype or object, so that calling one does harm. `keep` are those that the workflow itself calls.
const BREAK = (target) => `for (const name of Object.getOwnPropertyNames(${target})) {
  const descriptor = Object.getOwnPropertyDescriptor(${target}, name);
  if (name !== "constructor" && typeof descriptor.value === "function" && descriptor.configurable)
    Object.defineProperty(${target}, name, { ...descriptor, value: () => { throw new Error("patched " + ${JSON.stringify(target)} + "." + name); } });
}`;

const PATCHES = [
  `JSON.stringify = () => "[]"; JSON.parse = () => 5;`,
  ...["Array.prototype", "String.prototype", "Map.prototype", "Set.prototype", "WeakMap.prototype", "Promise.prototype", "RegExp.prototype", "Number.prototype", "Function.prototype", "Date.prototype",
    "Object.getPrototypeOf(Uint8Array.prototype)", "Math", "Number", "Array", "Promise", "String", "Reflect", "JSON"].map(BREAK),
  `const { getOwnPropertyNames, defineProperty } = Object; for (const name of getOwnPropertyNames(Object)) if (typeof Object[name] === "function") defineProperty(Object, name, { value: () => { throw new Error("patched Object"); } });`,
  `for (const name of ["Map", "Set", "Promise", "JSON", "Array", "Object", "String", "Number", "Math", "console", "setTimeout", "URL", "Headers", "TextEncoder", "DOMException"]) if (!["console", "setTimeout"].includes(name)) globalThis[name] = undefined;`,
  // What calls back into the SDK from what it might use.
  `const push = Array.prototype.push; Array.prototype.push = function (...items) { console.log("push"); return push.apply(this, items); };`,
  `const then = Promise.prototype.then; Promise.prototype.then = function (a, b) { return then.call(this, a && ((v) => a(v)), b); };`,
  `Object.prototype.toJSON = undefined; Array.prototype.first = function () { return this[0]; }; Object.prototype.extra = 1;`,
];

test("a patched language does not confuse the SDK", async (t) => {
  const expected = await play("");
  assert.deepEqual(expected.outcome, {
    ok: { charge: { id: "ch_1", aborted: false }, quick: 1, first: "came", caught: { code: "shop.no", details: { why: 1 }, cause: "inner", is: true } },
  });
  for (const patch of PATCHES) {
    await t.test(patch.slice(0, 90), async () => assert.deepEqual(await play(patch), expected));
  }
});
