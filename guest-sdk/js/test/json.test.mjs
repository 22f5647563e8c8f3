// Values as JSON: what has no form there is refused once and for all, or told.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

const deep = (levels) => `(() => { let value = 1; for (let level = 0; level < ${levels}; level++) value = { a: [value] }; return value; })()`;

const REFUSED = [
  [`(() => { const a = { list: [] }; a.list.push(a); return a; })()`, /cannot be written as JSON: .*circular/],
  [deep(20_000), /cannot be written as JSON: it is nested more than 500 levels deep/],
  [`({ amount: { cents: 5n } })`, /cannot be written as JSON: \.amount\.cents is a BigInt: write it as a text, String\(value\)/],
  [`[[1, 5n]]`, /\[0\]\[1\] is a BigInt/],
  [`5n`, /the value itself is a BigInt/],
  [`() => 1`, /\[function.*\] is no JSON value/],
  [`Symbol("s")`, /Symbol\(s\) is no JSON value/],
  [`({ get a() { throw new Error("in a getter"); } })`, /cannot be written as JSON: in a getter/],
  [`({ toJSON() { throw new Error("in toJSON"); } })`, /cannot be written as JSON: in toJSON/],
];

test("a result that can never be written fails its step at the first attempt", async (t) => {
  for (const [source, says] of REFUSED) {
    await t.test(source, async () => {
      const run = await started(`({ step }) => step.run("s", () => ${source})`);
      await run.attempt(0);
      const { tag, val } = run.finished(0);
      assert.equal(tag, "err");
      assert.match(val.message, says);
      assert.match(val.message, /^the result of step "s"/);
      assert.deepEqual([val.code, val.retryability], ["workflows.invalid_argument", { tag: "never" }]);
    });
  }
});

test("a workflow's result as well", async () => {
  const run = await started(`() => ${deep(20_000)}`);
  assert.match(run.outcome.err.message, /^the result of workflow "w" cannot be written as JSON: it is nested/);
});

test("an error's details that cannot be written are left out", async () => {
  const run = await started(`({ step }) => step.run("s", () => { throw new NonRetriableError("no", { details: ${deep(20_000)} }); })`);
  await run.attempt(0);
  assert.deepEqual([run.finished(0).val.message, run.finished(0).val.details], ["no", null]);
});

test("what JSON quietly makes something else of is told, with its place", async () => {
  const run = await started(`({ step }) => step.run("s", () =>
    ({ map: new Map(), list: [1, new Set(), Promise.resolve()], why: new TypeError("x"), ratio: 0 / 0, "odd key": [Infinity] }))`);
  await run.attempt(0);
  assert.equal(run.finished(0).tag, "ok");
  assert.deepEqual(JSON.parse(run.finished(0).val), { map: {}, list: [1, {}, {}], why: {}, ratio: null, "odd key": [null] });
  const [line] = run.logs;
  for (const part of [`warn: the result of step "s", written as JSON: `, ".map, a Map, becomes {}", ".list[1], a Set,", ".list[2], a promise, becomes {}: await it", ".why, an error", ".ratio, NaN, becomes null"]) {
    assert.ok(line.includes(part), `${part}: ${line}`);
  }
  assert.equal(run.logs.length, 1);
});

test("so is each kind of value of which little is left", async () => {
  const kinds = {
    "new Uint8Array([7])": "an array of numbers, becomes an object with a field for each: write [...array]",
    "new Uint8Array([7]).buffer": "an ArrayBuffer, becomes {}",
    "/x/g": "a regular expression, becomes {}",
    'new Headers({ a: "b" })': "a Headers, becomes {}: write Object.fromEntries(headers)",
    'new URLSearchParams("a=b")': "a URLSearchParams, becomes {}: write String(params)",
    'new Response("paid")': "a Response, becomes its status, without its body: return what its json() or text() gives",
  };
  for (const [source, says] of Object.entries(kinds)) {
    const run = await started(`({ step }) => step.run("s", () => ({ a: ${source} }))`);
    await run.attempt(0);
    assert.equal(run.finished(0).tag, "ok");
    assert.ok(run.logs.length === 1 && run.logs[0].includes(`written as JSON: .a, ${says}`), `${source}: ${run.logs}`);
  }
});

test("what has a form of its own is not told, nor what stands in a value twice", async () => {
  const run = await started(`({ step }) => step.run("s", () => {
    const shared = { n: 1 };
    class Price { cents = 5; toText() { return "5"; } }
    return { date: new Date(0), price: new Price(), shared, again: [shared, shared], url: new URL("https://a.example/"), skipped: undefined, own: { toJSON: () => [1] } };
  })`);
  await run.attempt(0);
  assert.deepEqual(run.logs, []);
  assert.deepEqual(JSON.parse(run.finished(0).val), {
    date: "1970-01-01T00:00:00.000Z", price: { cents: 5 }, shared: { n: 1 }, again: [{ n: 1 }, { n: 1 }], url: "https://a.example/", own: [1],
  });
});

test("what JSON has a form for is written as JSON.stringify writes it, however deep", async () => {
  const values = [
    `({ a: [1, "two", true, null, -0, 1e21, { b: { c: [] } }], undefined: undefined, é: "\\ud800 \\u2028" })`, `[undefined, , 3]`, `Object.assign([1], { extra: 2 })`,
    `Object.create(null, { a: { value: 1, enumerable: true }, hidden: { value: 2 } })`, `Object.create(Array.prototype, { 0: { value: 1, enumerable: true } })`,
    `({ get a() { return { b: 1 }; } })`, `({ "1": "b", "0": "a", [Symbol("s")]: 1, __proto__: { inherited: 1 } })`, `({ f() {}, list: [() => 1, Symbol("s")] })`,
    `({ toJSON: () => ({ own: 1 }) })`, `new (class extends Array { toJSON() { return "list"; } })(3)`, deep(3), deep(4), deep(5), deep(200), `[new Date(0), Object(1), Object("s")]`,
  ];
  for (const source of values) {
    const run = await started(`({ step }) => Promise.all([step.run("s", () => ${source}), step.run("own", () => JSON.stringify(${source}))])`);
    await run.attempt(0);
    await run.attempt(1);
    assert.equal(run.finished(0).val, JSON.parse(run.finished(1).val), source);
    assert.deepEqual(run.logs.filter((line) => line.includes("written as JSON")), [], source);
  }
});

test("an error of an operation keeps its name and message in a result; any other is told", async () => {
  const run = await started(`async ({ step }) => {
    const all = await Promise.allSettled([step.run("s", () => 1)]);
    return [all, new Error("lost")];
  }`);
  await run.fail(0, { code: "shop.no", name: "Declined", message: "no", details: '{"why":1}' });
  assert.deepEqual(run.outcome.ok, [
    [{ status: "rejected", reason: { name: "Declined", message: "no", code: "shop.no", details: { why: 1 }, outcomeUnknown: false } }], {},
  ]);
  assert.match(run.logs[0], /\[1\], an error, loses its name and message/);
});
