// What a workflow leaves behind at its end is told in its log: failures that nobody awaited, operations that nobody awaits.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

test("a failure that nothing awaited is told when the run ends", async () => {
  const run = await started(`async ({ step, sleep }) => { step.run("lost", () => 1); await sleep(5); return 1; }`);
  await run.fail(0, { message: "gone" });
  await run.complete(1);
  assert.deepEqual(run.outcome, { ok: 1 });
  assert.deepEqual(run.logs, ['warn: step "lost" failed, and nothing awaited it: gone']);
});

test("so is a failure of what was made from it", async () => {
  const run = await started(`async ({ step, sleep }) => {
    step.run("a", () => 1).then(() => { throw new Error("in then"); });
    step.run("b", () => 1).finally(() => {});
    step.run("c", () => 1).catch(() => {});
    await sleep(5);
  }`);
  await run.complete(0);
  await run.fail(1, { message: "b failed" });
  await run.fail(2, { message: "c failed" });
  await run.complete(3);
  assert.deepEqual(run.logs, [
    'warn: what was to follow step "a" failed, and nothing awaited it: in then',
    'warn: what was to follow step "b" failed, and nothing awaited it: b failed',
  ]);
});

test("a failure that is awaited later is not", async () => {
  const run = await started(`async ({ step, sleep }) => { const p = step.run("late", () => 1); await sleep(5); return p.catch((e) => e.message); }`);
  await run.fail(0, { message: "gone" });
  await run.complete(1);
  assert.deepEqual(run.outcome, { ok: "gone" });
  assert.deepEqual(run.logs, []);
});

const NEVER = "was begun and never awaited, and the run ends without it, whether it has run or not: await its promise";

const LEFT = [
  ["a step", `step.run("a", () => 1);`, [`step "a" ${NEVER}`]],
  ["a sleep and a wait", `sleep(7); waitForEvent("e");`, [`a sleep of 7 ms ${NEVER}`, `the wait for event "e" ${NEVER}`]],
  ["a step that something floating awaits", `(async () => { await step.run("a", () => 1); })();`,
    [`step "a" was still open when the workflow returned: it is given up, and its result is lost`]],
  ["a timer", `setTimeout(() => {}, 9);`, ["setTimeout of 9 ms had not fired when the workflow returned: what it was to call is not called"]],
  ["what is there to pass the time", `setInterval(() => {}, 9); AbortSignal.timeout(9); void sleep(9).then(); Promise.race([sleep(1), 5]);`, []],
];

for (const [what, source, told] of LEFT) {
  test(`left open by a workflow that returns: ${what}`, async () => {
    const run = await started(`({ step, sleep, waitForEvent }) => { ${source} }`);
    assert.deepEqual(run.outcome, { ok: null });
    assert.deepEqual(run.logs, told.map((text) => `warn: ${text}`));
  });
}

test("a workflow that throws gives up what is under way; only what nobody awaited is told", async () => {
  const run = await started(`async ({ step }) => { step.run("a", () => 1); await Promise.all([step.run("b", () => 1), step.run("c", () => 1)]); }`);
  await run.fail(1, { message: "no" });
  assert.equal(run.outcome.err.message, "no");
  assert.deepEqual(run.logs, [`warn: step "a" ${NEVER}`]);
});

test("a value that throws when it is looked at does no harm", async () => {
  const run = await started(`async ({ step, sleep }) => {
    step.run("a", () => 1).then(() => { throw { get message() { throw 1; } }; });
    await sleep(1);
    return "fine";
  }`);
  await run.complete(0);
  await run.complete(1);
  assert.deepEqual(run.outcome, { ok: "fine" });
  assert.match(run.logs[0], /what was to follow step "a" failed/);
});
