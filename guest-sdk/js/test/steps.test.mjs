// Steps: sequential, parallel, failing, expiring; and how whatever is thrown is recorded.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

test("steps run one after the other, each heard of by its own delivery", async () => {
  const run = await started(`async ({ step, input }) => {
    const a = await step.run("a", () => input + 1);
    return await step.run("b", async ({ attempt, idempotencyKey, operationKey }) => [a, attempt, idempotencyKey, operationKey]);
  }`, { input: 1 });
  await run.attempt(0);
  assert.deepEqual(run.finished(0), { tag: "ok", val: "2" });
  assert.deepEqual(run.story(), ["stepBegin a"], "its success is not known before it is delivered");
  await run.complete(0, 2);
  assert.deepEqual(run.story(), ["stepBegin a", "stepBegin b"]);
  await run.runStep(1, 3);
  assert.deepEqual(run.outcome, { ok: [2, 3, "run_1:s1:3", "run_1:s1"] });
});

test("a recorded result is delivered without its body having run", async () => {
  const run = await started(`({ step }) => step.run("a", () => { throw new Error("ran"); })`);
  await run.complete(0, { kept: true });
  assert.deepEqual(run.outcome, { ok: { kept: true } });
});

test("parallel steps settle in the order of the deliveries", async () => {
  const run = await started(`async ({ step }) => {
    const order = [];
    const note = (name) => step.run(name, () => name).then((value) => order.push(value));
    await Promise.all(["a", "b", "c"].map(note));
    return order;
  }`);
  for (const operation of [0, 1, 2]) await run.attempt(operation);
  for (const operation of [2, 0, 1]) await run.complete(operation, "abc"[operation]);
  assert.deepEqual(run.outcome, { ok: ["c", "a", "b"] });
});

test("a failed operation throws an error of the record", async () => {
  const run = await started(`async ({ step }) => {
    try { await step.run("a", () => 1); } catch (error) {
      return [error instanceof StepError, error.name, error.message, error.code, error.details, error.outcomeUnknown,
        error.cause.name, error.cause.message, error.cause.cause.message, error.cause.cause.cause];
    }
  }`);
  await run.fail(0, {
    code: "shop.declined", name: "PaymentDeclined", message: "no", details: '{"a":1}', outcomeUnknown: true,
    causes: [{ name: "TypeError", message: "inner" }, { name: null, message: "innermost" }],
  });
  assert.deepEqual(run.outcome.ok, [true, "PaymentDeclined", "no", "shop.declined", { a: 1 }, true, "TypeError", "inner", "innermost", null]);
});

test("an error that leaves the workflow keeps what was recorded of it", async () => {
  const run = await started(`async ({ step }) => { await step.run("a", () => 1); }`);
  const fields = { code: "shop.declined", name: "PaymentDeclined", message: "no", details: '{"a":1}', outcomeUnknown: true, causes: [{ name: "E", message: "c" }] };
  await run.fail(0, { ...fields, retry: "never" });
  assert.deepEqual(run.outcome.err, { ...fields, retryability: { tag: "never" } });
});

const THROWN = [
  [`"text"`, { message: "text", name: null }],
  [`undefined`, { message: "undefined", name: null }],
  [`null`, { message: "null", name: null }],
  [`12n`, { message: "12n", name: null }],
  [`Symbol("s")`, { message: "Symbol(s)", name: null }],
  [`{ status: 4 }`, { message: "{ status: 4 }", details: '{"status":4}' }],
  [`{ get message() { throw 1; }, get name() { throw 2; }, get cause() { throw 3; }, get code() { throw 4; }, x: 1n }`, { name: null, details: null }],
  [`new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } })`, { message: "[cannot be shown]" }],
  [`(() => { const a = {}; a.a = a; return a; })()`, { message: "{ a: [circular] }", details: null }],
  [`(() => { const e = new Error("e"); e.cause = e; return e; })()`, { message: "e", causes: [] }],
  [`Object.create(null)`, { message: "[no prototype] {}" }],
  [`new Error("")`, { message: "", name: "Error" }],
  [`new (class PaymentDeclined extends Error {})("no")`, { message: "no", name: "PaymentDeclined" }],
  [`Object.assign(new Error("x"), { code: "shop.x", details: { a: [1] } })`, { code: "shop.x", details: '{"a":[1]}' }],
  [`Object.assign(new Error("x"), { code: 7, details: 1n })`, { code: "workflows.step_failed", details: null }],
  [`new Error("\\ud800 and \\0")`, { message: "\ufffd and \0" }],
  [`new Error("a", { cause: new TypeError("b", { cause: "c" }) })`, { causes: [{ name: "TypeError", message: "b" }, { name: null, message: "c" }] }],
  [`new DOMException("gone", "AbortError")`, { name: "AbortError", message: "gone" }],
];

test("whatever a body throws is recorded", async (t) => {
  for (const [source, expected] of THROWN) {
    await t.test(source, async () => {
      const run = await started(`({ step }) => step.run("a", async () => { throw ${source}; })`);
      await run.attempt(0);
      const { tag, val } = run.finished(0);
      assert.equal(tag, "err");
      for (const [field, value] of Object.entries(expected)) assert.deepEqual(JSON.parse(JSON.stringify(val[field])), value, field);
      assert.deepEqual(val.retryability, { tag: "retry" });
    });
  }
});

test("the engine's own limits have their codes", async () => {
  const run = await started(`({ step }) => step.run("a", () => { const deeper = () => deeper() + 1; return deeper(); })`);
  await run.attempt(0);
  assert.equal(run.finished(0).val.code, "workflows.stack_overflow");
});

test("a long chain of causes is cut to 16", async () => {
  const run = await started(`({ step }) => step.run("a", () => {
    let error = new Error("0");
    for (let i = 1; i < 100; i++) error = new Error(String(i), { cause: error });
    throw error;
  })`);
  await run.attempt(0);
  const { causes } = run.finished(0).val;
  assert.equal(causes.length, 16);
  assert.equal(causes[0].message, "98");
});

const RETRY = [
  [`new NonRetriableError("")`, { tag: "never" }],
  [`new Error("outer", { cause: new Error("middle", { cause: new NonRetriableError() }) })`, { tag: "never" }],
  [`new (class Declined extends NonRetriableError {})("x")`, { tag: "never" }],
  [`new RetryAfterError("later", "1 h")`, { tag: "after-ms", val: 3_600_000 }],
  [`new RetryAfterError("later", 0)`, { tag: "after-ms", val: 0 }],
  [`new RetryAfterError("later", new Date(Date.now() + 5000))`, { tag: "after-ms", val: 5000 }],
  [`new Error("outer", { cause: new RetryAfterError("later", 7) })`, { tag: "after-ms", val: 7 }],
  [`new Error("NonRetriableError: never retry this")`, { tag: "retry" }],
];

test("retryability is a typed flag, also of a cause", async (t) => {
  for (const [source, expected] of RETRY) {
    await t.test(source, async () => {
      const run = await started(`({ step }) => step.run("a", () => { throw ${source}; })`);
      await run.attempt(0);
      assert.deepEqual(JSON.parse(JSON.stringify(run.finished(0).val.retryability)), expected);
    });
  }
});

test("a retry-after out of range is refused by name", async () => {
  const run = await started(`({ step }) => step.run("a", () => { throw new RetryAfterError("x", "25 h"); })`);
  await run.attempt(0);
  const { val } = run.finished(0);
  assert.match(val.message, /at most 24 hours, got "25 h"/);
  assert.equal(val.code, "workflows.invalid_argument");
});

test("results are JSON; what is none fails the attempt, not retried", async (t) => {
  const good = [["undefined", "null"], ["new Date(0)", '"1970-01-01T00:00:00.000Z"'], ["{ a: undefined, b: [undefined] }", '{"b":[null]}'], ["NaN", "null"]];
  for (const [source, json] of good) {
    await t.test(source, async () => {
      const run = await started(`({ step }) => step.run("a", () => (${source}))`);
      await run.attempt(0);
      assert.deepEqual(run.finished(0), { tag: "ok", val: json });
    });
  }
  for (const source of ["1n", "() => 1", "Symbol()", "(() => { const a = []; a.push(a); return a; })()", "{ toJSON() { throw 1; } }"]) {
    await t.test(source, async () => {
      const run = await started(`({ step }) => step.run("a", () => (${source}))`);
      await run.attempt(0);
      const { tag, val } = run.finished(0);
      assert.equal(tag, "err");
      assert.equal(val.code, "workflows.invalid_argument");
      assert.deepEqual(val.retryability, { tag: "never" });
    });
  }
});

test("an outcome that the host refuses becomes the attempt's failure", async () => {
  const refuse = { stepFinish: (_, outcome) => (outcome.tag === "ok" ? { code: "workflows.result_too_large", message: "too large", retry: "never" } : null) };
  const run = await started(`({ step }) => step.run("a", () => "x")`, { refuse });
  await run.attempt(0);
  const { tag, val } = run.finished(0);
  assert.equal(tag, "err");
  assert.equal(val.code, "workflows.result_too_large");
  assert.deepEqual(val.retryability, { tag: "never" });
});

test("an expired attempt is told, its pending requests end, and its late result is not sent", async () => {
  const run = await started(`({ step }) => step.run("a", async ({ signal, http, attempt }) => {
    if (attempt === 2) return "second";
    signal.addEventListener("abort", () => console.log("told", signal.reason.name));
    try { await http.get("https://a.example/"); } catch (error) { console.log("ended", error.name); }
    return "late";
  })`);
  await run.attempt(0);
  await run.expire(0);
  assert.deepEqual(run.logs, ["info: told AbortError", "info: ended AbortError"]);
  assert.equal(run.finished(0), undefined);
  await run.runStep(0, 2);
  assert.deepEqual(run.outcome, { ok: "second" });
});

test("a closed attempt can begin nothing", async () => {
  const run = await started(`({ step }) => step.run("a", async ({ signal, fetch, attempt }) => {
    if (attempt === 2) return "second";
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await fetch("https://a.example/").catch((error) => console.log(error.code));
    setTimeout(() => console.log("never"), 5);
  })`);
  await run.attempt(0);
  await run.expire(0);
  assert.deepEqual(run.logs, ["info: workflows.attempt_closed"]);
  assert.deepEqual(run.made("httpSend"), []);
  assert.deepEqual(run.made("delay"), []);
});

test("operations in a body are refused at the call", async () => {
  const run = await started(`({ step, sleep, waitForEvent }) => step.run("a", () => {
    const codes = [];
    for (const call of [() => sleep(5), () => step.run("b", () => 1), () => waitForEvent("e")]) {
      try { call(); codes.push("begun"); } catch (error) { codes.push(error.code); }
    }
    return codes;
  })`);
  await run.attempt(0);
  const refused = "workflows.operation_inside_step";
  assert.deepEqual(JSON.parse(run.finished(0).val), [refused, refused, refused]);
});

test("a fault of a body's code is told with its place, at the first attempt", async () => {
  const run = await started(`({ step }) => step.run("s", () => { const total = (order) => order.lines.length; return total({}); })`);
  await run.attempt(0);
  await run.attempt(0, 2);
  assert.equal(run.logs.length, 1);
  assert.match(run.logs[0], /^warn: TypeError at total \(test:workflow\.js:2:\d+\), /);
});

test("an error that a body throws on purpose is not", async () => {
  const run = await started(`({ step }) => step.run("s", () => { throw new Error("closed"); })`);
  await run.attempt(0);
  assert.deepEqual(run.logs, []);
});

test("what fails the workflow is told with its place, unless an operation failed with it", async () => {
  const run = await started(`({ step }) => { step.run("s"); }`);
  assert.match(run.outcome.err.message, /body: expected a function/);
  assert.match(run.logs[0], /^error: TypeError at .*test:workflow\.js:2:\d+/);
  const failed = await started(`async ({ step }) => { await step.run("s", () => 1); }`);
  await failed.fail(0, { message: "no" });
  assert.deepEqual(failed.logs, []);
});

test("an error of several keeps them as its causes", async () => {
  const run = await started(`() => Promise.any([Promise.reject(new Error("x")), Promise.reject(new TypeError("y"))])`);
  const { name, causes } = run.outcome.err;
  assert.deepEqual([name, causes], ["AggregateError", [{ name: "Error", message: "x" }, { name: "TypeError", message: "y" }]]);
});
