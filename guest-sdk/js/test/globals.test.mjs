// The globals of the host: time, randomness, timers, console. In workflow code they are the run's, in a body real.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

test("Date is the run's clock", async () => {
  const run = await started(`() => {
    class Day extends Date { next() { return new Day(this.getTime() + 86_400_000); } }
    const day = new Day(2020, 0, 31);
    return [Date.now(), new Date().getTime(), typeof Date(), new Date() instanceof Date, new Date(0).toISOString(), Date.UTC(2020, 0), Date.parse("1970-01-01T00:00:01Z"),
      new Date(2020, 1).getMonth(), Date.length, Date.name, day.next() instanceof Day, day.next() instanceof Date, new Date(0).constructor === Date, new Date(new Date(5)).getTime(), performance.now()];
  }`);
  assert.deepEqual(run.outcome.ok, [
    run.now, run.now, "string", true, "1970-01-01T00:00:00.000Z", 1577836800000, 1000, 1, 7, "Date", true, true, true, 5, 0,
  ]);
});

test("a body's clock is real", async () => {
  const run = await started(`async ({ step, now }) => [await step.run("a", () => [Date.now(), performance.now()]), now()]`);
  await run.runStep(0);
  assert.deepEqual(run.outcome.ok, [[run.now + 5, 5], run.now]);
});

test("randomness comes from the host alone", async () => {
  const source = `({ random }) => [Math.random(), random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(5))], crypto.getRandomValues(new Uint32Array(1))[0]]`;
  const [first, second] = [await started(source), await started(source)];
  assert.deepEqual(first.outcome.ok, second.outcome.ok);
  const [a, b, uuid, bytes] = first.outcome.ok;
  assert.ok(a >= 0 && a < 1 && b >= 0 && b < 1 && a !== b);
  assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(bytes.length, 5);
});

test("the largest random number stays below 1", async () => {
  const run = await started(`({ step, random }) => step.run("a", () => [random(), crypto.getRandomValues(new Uint32Array(1))[0]])`);
  run.result = (name) => (name === "randomU64" ? 2 ** 64 : undefined);
  await run.attempt(0);
  assert.deepEqual(JSON.parse(run.finished(0).val), [1 - 2 ** -53, 0xffff_ffff]);
});

test("setTimeout in workflow code is a durable sleep", async () => {
  const run = await started(`() => new Promise((resolve) => setTimeout((a, b) => resolve([a, b]), 1000, 1, 2))`);
  assert.deepEqual(run.story(), ["sleep 1000"]);
  await run.complete(0);
  assert.deepEqual(run.outcome, { ok: [1, 2] });
});

test("clearTimeout removes the sleep, and a cleared interval ends", async () => {
  const run = await started(`async ({ sleep }) => {
    clearTimeout(setTimeout(() => { throw new Error("fired"); }, 1000).unref());
    clearTimeout(undefined);
    clearTimeout(12345);
    let ticks = 0;
    await new Promise((resolve) => { const timer = setInterval(() => { if (++ticks === 2) { clearInterval(+timer); resolve(); } }, 10); });
    return ticks;
  }`);
  assert.deepEqual(run.story(), ["sleep 1000", "close 0", "sleep 10"]);
  await run.complete(1);
  await run.complete(2);
  assert.deepEqual(run.outcome, { ok: 2 });
  assert.deepEqual(run.story().length, 4);
});

test("setTimeout in a body is a timer of its attempt", async () => {
  const run = await started(`({ step }) => step.run("a", () => new Promise((resolve) => setTimeout(resolve, 50, "fired")))`);
  await run.attempt(0);
  assert.deepEqual(run.made("delay"), [[{ operation: 0, number: 1 }, 50]]);
  await run.elapse(0);
  assert.equal(run.finished(0).val, '"fired"');
});

test("a cleared timer of a body does not fire", async () => {
  const run = await started(`({ step }) => step.run("a", async ({ delay }) => { let fired = false; clearTimeout(setTimeout(() => (fired = true), 5)); await delay(10); return fired; })`);
  await run.attempt(0);
  await run.elapse(0);
  await run.elapse(1);
  assert.equal(run.finished(0).val, "false");
});

test("what a timer or a microtask throws is logged", async () => {
  const run = await started(`async ({ sleep }) => { setTimeout(() => { throw new Error("in a timer"); }); queueMicrotask(() => { throw new Error("in a microtask"); }); await sleep(5); }`);
  await run.complete(0);
  assert.match(run.logs[0], /^error: uncaught in a microtask: Error: in a microtask/);
  assert.match(run.logs[1], /^error: uncaught in a timer: Error: in a timer/);
});

const LINES = [
  [`"a", 1, "b"`, "a 1 b"],
  [`{ a: 1, b: "x", "c-d": [1, , 3] }`, `{ a: 1, b: "x", "c-d": [1, undefined, 3] }`],
  [`"%s is %d years, %i, %f, %j %o %% %c.", "Al", "42", 4.7, "1.5", { a: 1 }, [1], "css", "more"`, `Al is 42 years, 4, 1.5, {"a":1} [1] % . more`],
  [`"100%", 5`, "100% 5"],
  [`"%s"`, "%s"],
  [`"%d", 5n`, "5n"],
  [`new Map([["a", { b: 1 }]]), new Set([1]), new Uint8Array(2)`, `Map { "a" => { b: 1 } } Set { 1 } Uint8Array [0, 0]`],
  [`null, undefined, Symbol("s"), -0, 5n, () => 1, class A {}`, "null undefined Symbol(s) -0 5n [function] [class A]"],
  [`new (class Order { id = 1 })(), Object.create(null)`, "Order { id: 1 } [no prototype] {}"],
  [`(() => { const a = { b: {} }; a.b.a = a; return a; })()`, "{ b: { a: [circular] } }"],
  [`{ get a() { throw 1; }, b: 1 }`, "{ a: [getter threw], b: 1 }"],
  [`new Proxy({}, { ownKeys() { throw 1; }, getPrototypeOf() { throw 2; } })`, "[cannot be shown]"],
  [`"%s %j", { toString() { throw 1; } }, (() => { const a = {}; a.a = a; return a; })()`, "{ toString: [function toString] } [cannot be shown]"],
  [`{ a: { b: { c: { d: { e: 1 } } } } }`, "{ a: { b: { c: { d: {...} } } } }"],
  [`new Date(0), /x/g, new Date(NaN)`, "1970-01-01T00:00:00.000Z /x/g [invalid Date]"],
  [``, ""],
];

test("console writes one readable line a call", async (t) => {
  for (const [source, line] of LINES) {
    await t.test(source, async () => {
      const run = await started(`() => { console.log(${source}); }`);
      assert.deepEqual(run.logs, [`info: ${line}`]);
    });
  }
});

test("console's levels, groups, counts, errors", async () => {
  const run = await started(`() => {
    console.debug("d"); console.warn("w"); console.error("e"); console.trace("t");
    console.group("g"); console.info("inside"); console.groupEnd(); console.count(); console.count();
    console.assert(true, "no"); console.assert(false, "yes"); console.time("t"); console.timeEnd("t");
    console.error("failed:", new TypeError("bad", { cause: new Error("inner") }));
  }`);
  assert.deepEqual(run.logs.slice(0, -1), [
    "debug: d", "warn: w", "error: e", "trace: t", "info: g", "info:   inside", "info: default: 1", "info: default: 2", "error: Assertion failed: yes", "info: t: 0 ms",
  ]);
  assert.match(run.logs.at(-1), /^error: failed: TypeError: bad\n[^]*\[cause: Error: inner/);
});

test("huge values give bounded lines", async () => {
  const run = await started(`() => { console.log(Array.from({ length: 1e5 }, (_, i) => ({ i, text: "x".repeat(1000) }))); console.log([..."x".repeat(1e5)]); }`);
  for (const line of run.logs) assert.ok(line.length < 40_000, String(line.length));
});
