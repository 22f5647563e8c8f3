// The workflow's context: sleeping, waiting, children, cancelling, logging; arguments; registration and description.

import assert from "node:assert/strict";
import test from "node:test";

import { host, started } from "./support/host.mjs";
import { definitions } from "./support/wire.mjs";

const DURATIONS = [
  ["250", 250], ["0", 0], ["1.2", 2], [`"250ms"`, 250], [`"30 s"`, 30_000], [`"1.5 h"`, 5_400_000], [`"2 days"`, 172_800_000], [`"1 week"`, 604_800_000],
  [`"1.1 h"`, 3_960_000], [`"1 h 30 min"`, 5_400_000], [`" 5 MINUTES "`, 300_000], [`".5 s"`, 500], [`"0 s"`, 0], ["-0", 0],
];

test("durations", async (t) => {
  for (const [source, ms] of DURATIONS) {
    await t.test(source, async () => {
      const run = await started(`({ sleep }) => sleep(${source})`);
      assert.deepEqual(run.made("sleep"), [[ms]]);
      await run.complete(0);
      assert.deepEqual(run.outcome, { ok: null });
    });
  }
});

test("what is no duration is refused", async (t) => {
  for (const source of [`"soon"`, `""`, `"5"`, `"-5 s"`, `"5 s and"`, `"5 parsecs"`, "-1", "NaN", "Infinity", "null", "undefined", "{}", "5n", "new Date()"]) {
    await t.test(source, async () => {
      const run = await started(`({ sleep }) => sleep(${source})`);
      assert.match(run.outcome.err.message, /^sleep: expected a duration: milliseconds, or a text such as "30 s"/);
      assert.equal(run.outcome.err.code, "workflows.invalid_argument");
      assert.deepEqual(run.made("sleep"), []);
    });
  }
});

test("sleepUntil takes a point in time", async (t) => {
  for (const source of ["now() + 5000", "new Date(now() + 5000)", "new Date(now() + 5000).toISOString()", "now() - 1"]) {
    await t.test(source, async () => {
      const run = await started(`({ sleepUntil, now }) => sleepUntil(${source})`);
      assert.deepEqual(run.made("sleep"), [[source.includes("- 1") ? 0 : 5000]]);
    });
  }
  const run = await started(`({ sleepUntil }) => sleepUntil("next tuesday")`);
  assert.match(run.outcome.err.message, /^sleepUntil: expected a point in time/);
});

test("an event's payload, or null when it did not come", async () => {
  const run = await started(`async ({ waitForEvent }) => [await waitForEvent("a"), await waitForEvent("b", { timeoutMs: 5 })]`);
  assert.deepEqual(run.made("waitEvent"), [["a", null]]);
  await run.complete(0, { ok: true });
  await run.fail(1, { code: "workflows.wait_timeout" });
  assert.deepEqual(run.made("waitEvent")[1], ["b", 5]);
  assert.deepEqual(run.outcome, { ok: [{ ok: true }, null] });
});

test("a wait that fails otherwise throws", async () => {
  const run = await started(`async ({ waitForEvent }) => { await waitForEvent("a"); }`);
  await run.fail(0, { code: "workflows.cancelled", message: "cancelled" });
  assert.equal(run.outcome.err.code, "workflows.cancelled");
});

test("a child run", async () => {
  const run = await started(`({ start }) => start("child", { a: 1 }, { runKey: "k", detached: true, onParentClose: "abandon", tags: { t: "v" } })`);
  assert.deepEqual(run.made("startRun"), [["child", '{"a":1}', { runKey: "k", detached: true, onParentClose: "abandon", tags: [["t", "v"]] }]]);
  await run.complete(0, "run_2");
  assert.deepEqual(run.outcome, { ok: "run_2" });
});

test("a host's refusal is thrown at the call", async () => {
  const refuse = { startRun: () => ({ code: "workflows.unsupported", message: "not yet" }) };
  const run = await started(`({ start }) => { try { start("child"); } catch (error) { return [error instanceof WorkflowError, error.code, error.message]; } }`, { refuse });
  assert.deepEqual(run.outcome, { ok: [true, "workflows.unsupported", "not yet"] });
});

test("events to other runs and continuing as new", async () => {
  const run = await started(`async ({ sendEvent, continueAsNew }) => { await sendEvent("run_2", "go", [1]); return continueAsNew({ round: 2 }); }`);
  assert.deepEqual(run.made("sendEvent"), [["run_2", "go", "[1]"]]);
  await run.complete(0);
  assert.deepEqual(run.made("continueAsNew"), [['{"round":2}']]);
  assert.deepEqual(run.outcome, { ok: null });
});

test("nothing of the handler runs after it continues as new", async () => {
  const run = await started(`async ({ continueAsNew, step }) => {
    try { await continueAsNew(1); } catch { await step.run("never", () => 1); } finally { await step.run("never", () => 1); }
    return "never";
  }`);
  assert.deepEqual(run.outcome, { ok: null });
  assert.deepEqual(run.made("stepBegin"), []);
});

test("a refused continueAsNew is thrown, and the run goes on", async () => {
  const refuse = { continueAsNew: () => ({ code: "workflows.cancelled", message: "too late" }) };
  const run = await started(`async ({ continueAsNew }) => { try { await continueAsNew(1); } catch (error) { return error.code; } }`, { refuse });
  assert.deepEqual(run.outcome, { ok: "workflows.cancelled" });
});

test("a cancel fires the run's signal; operations fail by their own deliveries; cleaning up begins new ones", async () => {
  const run = await started(`async ({ step, sleep, signal, log }) => {
    signal.addEventListener("abort", () => log.warn("cancelling"));
    try { await sleep(1000); } finally { await step.run("clean up", () => 1); }
  }`);
  await run.deliver("cancelled");
  assert.deepEqual(run.logs, ["warn: cancelling"]);
  await run.fail(0, { code: "workflows.cancelled", message: "cancelled" });
  await run.runStep(1);
  assert.equal(run.outcome.err.code, "workflows.cancelled");
});

test("status, run id, log lines with fields", async () => {
  const run = await started(`({ setStatus, runId, log }) => { setStatus("at " + runId); log("a", { n: 1 }); log.error("b"); }`);
  assert.deepEqual(run.made("setStatus"), [["at run_1"]]);
  assert.deepEqual(run.logs, ["info: a", "error: b"]);
});

const WRONG = [
  [`step.run(5, () => 1)`, /^step.run, name: expected a string, got 5/],
  [`step.run("", () => 1)`, /a string that is not empty/],
  [`step.run("a")`, /body: expected a function, got undefined/],
  [`step.run("a", {}, () => 1)`, /body: expected a function, got \{\}/],
  [`step.run("a", () => 1, "x")`, /options: expected an object of options/],
  [`step.run("a", () => 1, { timeout: 5 })`, /unknown field "timeout"; known are retry, timeoutMs/],
  [`step.run("a", () => 1, { timeoutMs: "5 s" })`, /timeoutMs: expected a whole number of milliseconds/],
  [`step.run("a", () => 1, { effect: "twice" })`, /effect: expected "repeatable", "keyed", "once", got "twice"/],
  [`step.run("a", () => 1, { reconcile: () => 1 })`, /reconcile is not supported yet/],
  [`step.run("a", () => 1, { retry: { attempts: 5 } })`, /unknown field "attempts"; known are maxAttempts/],
  [`step.run("a", () => 1, { retry: { maxAttempts: 5e9 } })`, /maxAttempts: expected a whole number/],
  [`step.run("a", () => 1, { retry: { maxAttempts: "5" } })`, /maxAttempts: expected a whole number/],
  [`step.run("a", () => 1, { retry: { jitter: NaN } })`, /jitter: expected a finite number/],
  [`waitForEvent(5)`, /waitForEvent, name: expected a string/],
  [`waitForEvent("a", { timeout: 5 })`, /unknown field "timeout"; known are timeoutMs/],
  [`start(5)`, /start, workflow: expected a string/],
  [`start("a", 1n)`, /input cannot be written as JSON/],
  [`start("a", 1, { tags: { a: 5 } })`, /tags.a: expected a string/],
  [`setStatus(5)`, /setStatus: expected a string/],
  [`race([])`, /race: expected/],
  [`race(5)`, /race: expected/],
];

test("a line of the log refuses nothing, so that what tells of a failure is none", async () => {
  const run = await started(`({ log }) => {
    const cyclic = { n: 1 }; cyclic.self = cyclic;
    log.error(new TypeError("no stock"));
    for (const odd of [5n, undefined, null, Symbol("s"), cyclic, new Proxy({}, { ownKeys() { throw 1; } })]) log.warn(odd);
    log("a", cyclic); log("b", { cents: 5n }); log("c", () => 1); log("d", Symbol("s"));
    return "done";
  }`);
  assert.deepEqual(run.outcome, { ok: "done" });
  assert.match(run.logs[0], /^error: TypeError: no stock/);
  assert.deepEqual(run.logs.slice(1), [
    "warn: 5n", "warn: undefined", "warn: null", "warn: Symbol(s)", "warn: { n: 1, self: [circular] }", "warn: [cannot be shown]",
    "info: a", "info: b", "info: c", "info: d",
  ]);
  assert.deepEqual(run.fields.slice(7).map((fields) => JSON.parse(fields)), [
    "{ n: 1, self: [circular] }", "{ cents: 5n }", "[function]", "Symbol(s)",
  ]);
});

test("an argument of the wrong form is refused with a clear text, and nothing begins", async (t) => {
  for (const [source, text] of WRONG) {
    await t.test(source, async () => {
      const run = await started(`({ step, waitForEvent, start, setStatus, log }) => { ${source}; }`);
      assert.match(run.outcome.err.message, text);
      assert.deepEqual(run.outcome.err.retryability, { tag: "never" });
      assert.deepEqual(run.story(), []);
    });
  }
});

test("a policy of the wrong form has its own code; its ranges are the host's", async () => {
  const run = await started(`({ step }) => step.run("a", () => 1, { retry: { maxAttempts: -1 } })`);
  assert.equal(run.outcome.err.code, "workflows.invalid_policy");
  const refuse = { stepBegin: () => ({ code: "workflows.invalid_policy", message: "jitter", retry: "never" }) };
  const other = await started(`({ step }) => step.run("a", () => 1, { retry: { jitter: 7 } })`, { refuse });
  assert.equal(other.outcome.err.code, "workflows.invalid_policy");
});

test("texts with lone surrogates pass the border as well-formed ones", async () => {
  const run = await started(`({ step, log, setStatus }) => { log("\\ud800"); setStatus("\\ud800"); void step.run("\\ud800", () => 1); console.log("\\udc00"); }`);
  assert.deepEqual(run.logs.slice(0, 2), ["info: \ufffd", "info: \ufffd"]);
  assert.match(run.logs[2], /^warn: step "\ufffd" was begun and never awaited/);
  assert.deepEqual(run.story(), ["stepBegin \ufffd"]);
});

test("what the workflow throws is its error record", async () => {
  const run = await started(`() => { throw new (class ShopClosed extends Error {})("closed", { cause: "night" }); }`);
  const { code, name, message, causes } = run.outcome.err;
  assert.deepEqual([code, name, message, causes], ["workflows.workflow_failed", "ShopClosed", "closed", [{ name: null, message: "night" }]]);
});

test("describe tells each workflow's defaults", async () => {
  const module = await host(`
    workflow("a", () => 1, { retry: { maxAttempts: 5 }, timeoutMs: 60_000, runTimeoutMs: 5, destinations: ["pay.example"], secrets: ["pay"], inputSchema: { type: "object" } });
    workflow("b", () => 1);`);
  const described = module.guest.describe();
  assert.ok(definitions(JSON.parse(JSON.stringify(described))));
  const [a, b] = JSON.parse(JSON.stringify(described));
  assert.deepEqual([a.name, a.retry.maxAttempts, a.stepTimeoutMs, a.runTimeoutMs, a.destinations, a.secrets, a.inputSchema], ["a", 5, 60_000, 5, ["pay.example"], ["pay"], '{"type":"object"}']);
  assert.deepEqual([b.name, b.retry.maxAttempts, b.stepTimeoutMs, b.destinations], ["b", null, null, []]);
});

const UNREGISTRABLE = [
  [`workflow("a", () => 1); workflow("a", () => 2);`, /workflow\("a"\): this module has a workflow of that name already/],
  [`workflow(() => 1);`, /workflow, name: expected a string/],
  [`workflow("a");`, /handler: expected a function/],
  [`workflow("a", () => 1, { retries: 5 });`, /unknown field "retries"; known are retry, timeoutMs/],
  [`workflow("a", () => 1, { destinations: "pay.example" });`, /destinations: expected an array of strings/],
  [`workflow("a", () => 1, { retry: { jitter: "x" } });`, /jitter: expected a finite number/],
];

test("a wrong registration is refused where it stands", async (t) => {
  for (const [source, text] of UNREGISTRABLE) await t.test(source, () => assert.rejects(host(source), text));
});

test("an unknown workflow says which there are", async () => {
  const run = await host(`workflow("a", () => 1);`);
  await run.start("b", null);
  assert.equal(run.outcome.err.code, "workflows.unknown_workflow");
  assert.match(run.outcome.err.message, /no workflow "b"; it has "a"/);
});

test("the top level of a module has no run: clear errors, and console works", async (t) => {
  const uses = ["Date.now()", "new Date()", "Math.random()", "crypto.randomUUID()", "performance.now()", "setTimeout(() => 1)", `fetch("https://a.example")`];
  for (const use of uses) {
    await t.test(use, () => assert.rejects(host(use), /not available at a module's top level: that code runs once, when the module is built/));
  }
  const quiet = await host(`console.log("building", new Date(0).getTime(), new URL("https://a.example").host); workflow("a", () => 1);`);
  assert.deepEqual(quiet.logs, ["info: building 0 a.example"]);
});
