// Races: who wins, who is closed, and what can still be awaited afterwards.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

test("a wait that lost Promise.race does not swallow the event", async () => {
  const run = await started(`async ({ waitForEvent, sleep }) => {
    await Promise.race([waitForEvent("x"), sleep(1000)]);
    return waitForEvent("x");
  }`);
  await run.complete(1);
  assert.deepEqual(run.story(), ["waitEvent x", "sleep 1000", "close 0", "waitEvent x"]);
  await run.complete(2, "came");
  assert.deepEqual(run.outcome, { ok: "came" });
});

test("a timer that lost is removed, also where the race was given derived promises", async () => {
  const run = await started(`({ waitForEvent, sleep }) =>
    Promise.race([waitForEvent("x"), sleep("1 h").then(() => { throw new Error("too late"); })])`);
  await run.complete(0, 5);
  assert.deepEqual(run.story(), ["waitEvent x", "sleep 3600000", "close 1"]);
  assert.deepEqual(run.outcome, { ok: 5 });
});

test("Promise.race leaves a step going: it can be awaited afterwards", async () => {
  const run = await started(`async ({ step, sleep }) => {
    const work = step.run("work", () => 1);
    const first = await Promise.race([work, sleep(1000).then(() => "slow")]);
    return [first, await work];
  }`);
  await run.complete(1);
  assert.deepEqual(run.story(), ["stepBegin work", "sleep 1000"]);
  await run.complete(0, "done");
  assert.deepEqual(run.outcome, { ok: ["slow", "done"] });
});

test("the SDK's race closes every loser, steps too; who still awaits one hears of it", async () => {
  const run = await started(`async ({ step, sleep }) => {
    const work = step.run("work", () => 1);
    await race([work, sleep(1000)]);
    return work.catch((error) => [error.code, error.message]);
  }`);
  await run.complete(1);
  assert.deepEqual(run.story().at(-1), "close 0");
  assert.deepEqual(run.outcome, { ok: ["workflows.cancelled", 'step "work" lost a race and was closed'] });
});

test("a deadline that lost one race stands in the next, with the time that is left", async () => {
  const run = await started(`async ({ waitForEvent, sleep }) => {
    const deadline = sleep(1000).then(() => "over");
    const seen = [];
    for (;;) {
      const event = await Promise.race([deadline, waitForEvent("x")]);
      seen.push(event);
      if (event === "over") return seen;
    }
  }`);
  run.now += 400;
  await run.complete(1, "a");
  run.now += 400;
  await run.complete(2, "b");
  assert.deepEqual(run.story(), [
    "sleep 1000", "waitEvent x", "close 0", "waitEvent x", "sleep 600", "close 3", "waitEvent x", "sleep 200",
  ]);
  await run.complete(5);
  assert.deepEqual(run.outcome, { ok: ["a", "b", "over"] });
});

test("a wait that a parallel branch awaits is not closed under its feet", async () => {
  const run = await started(`async ({ waitForEvent, sleep }) => {
    const event = waitForEvent("x");
    const branch = (async () => "branch " + (await event))();
    await Promise.race([event, sleep(5)]);
    return branch;
  }`);
  await run.complete(1);
  assert.deepEqual(run.story(), ["waitEvent x", "sleep 5"]);
  await run.complete(0, "came");
  assert.deepEqual(run.outcome, { ok: "branch came" });
});

test("a timer raced directly is begun again when it is raced again", async () => {
  const run = await started(`async ({ waitForEvent, sleep }) => {
    const deadline = sleep(1000);
    const seen = [];
    for (;;) {
      const event = await Promise.race([deadline, waitForEvent("x")]);
      seen.push(event ?? "over");
      if (event === undefined) return seen;
    }
  }`);
  run.now += 400;
  await run.complete(1, "a");
  assert.deepEqual(run.story(), ["sleep 1000", "waitEvent x", "close 0", "waitEvent x", "sleep 600"]);
  await run.complete(3);
  assert.deepEqual(run.story().slice(5), ["close 2"]);
  assert.deepEqual(run.outcome, { ok: ["a", "over"] });
});

test("a race of anything else is the language's own", async () => {
  const run = await started(`async () => [
    await Promise.race([1, new Promise(() => {})]),
    await Promise.race(new Set(["a"])),
    await Promise.race([Promise.reject(new Error("no"))]).catch((error) => error.message),
    await race([Promise.resolve(2)]),
  ]`);
  assert.deepEqual(run.outcome, { ok: [1, "a", "no", 2] });
});

test("Promise.all, allSettled and any work with operations", async () => {
  const run = await started(`async ({ step }) => {
    const named = (name) => step.run(name, () => name);
    return [await Promise.all([named("a"), named("b")]), (await Promise.allSettled([named("c")]))[0].reason.message, await Promise.any([named("d"), named("e")])];
  }`);
  await run.complete(1, "b");
  await run.complete(0, "a");
  await run.fail(2, { message: "no" });
  await run.complete(4, "e");
  assert.deepEqual(run.outcome, { ok: [["a", "b"], "no", "e"] });
});
