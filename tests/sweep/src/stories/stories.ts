// What the stories run: each workflow is there for one thing that is asked of it from outside.
import { workflow, NonRetriableError, type Context, type Steps } from "stepwell";

/** The second module has it mended. */
const MENDED = false;

const options = { destinations: ["127.0.0.1:*"], timeoutMs: 10_000 };
const retry = { maxAttempts: 40, initialMs: 10, maxMs: 50 };

const post = (step: Steps, url: string, name: string, effect: "keyed" | "once" = "keyed") =>
  step.run(name, async ({ http }) => (await http.post(`${url}/${name}`, { json: name }).ensureOk()).json(), { effect, retry });

/** Sleeps for longer than anybody waits, and cleans up when it is told to cancel. */
export const patient = workflow("patient", async ({ input: { url }, step, sleep }: Context) => {
  await post(step, url, "first");
  try {
    await sleep("1 hour");
  } catch (error) {
    await post(step, url, "undo");
    throw error;
  }
}, options);

/** Two writes, and an event between them. */
export const between = workflow("between", async ({ input: { url }, step, waitForEvent }: Context) => {
  await post(step, url, "first");
  const said = await waitForEvent("go");
  return [said, await post(step, url, "second")];
}, options);

/** A write that must not be made twice, and whose first answer is lost. */
export const unsure = workflow("unsure", async ({ input: { url }, step }: Context) => {
  const paid = await post(step, url, "lost", "once");
  return [paid, await post(step, url, "after")];
}, options);

/** Fails in its second step until it is mended; its child, and its first step, are not done again. */
export const mended = workflow("mended", async ({ input: { url }, step, start }: Context) => {
  const [first, child] = await Promise.all([post(step, url, "first"), start("writer", { url })]);
  const second = await step.run("second", async ({ http }) => {
    if (!MENDED) throw new NonRetriableError("it is not mended");
    return (await http.post(`${url}/second`, { json: "second" }).ensureOk()).json();
  }, { effect: "keyed", retry });
  return [first, child, second, await post(step, url, "third")];
}, options);

export const writer = workflow("writer", async ({ input: { url }, step }: Context) => post(step, url, "child"), options);

/** Two writes, one after the other. */
export const pair = workflow("pair", async ({ input: { url }, step }: Context) =>
  [await post(step, url, "a"), await post(step, url, "b")], options);

/** A child that says that it is there, and takes what it is sent back. */
export const helper = workflow("helper", async ({ input: { url, parent, n }, runId, step, sendEvent, waitForEvent }: Context) => {
  await sendEvent(parent, "ready", { n, runId });
  const word = await waitForEvent("word");
  return [word, await post(step, url, `helper-${n}`)];
}, options);

/** Has a helper in each of its runs, and goes on in another until it has had enough; the last one tells all. */
export const family = workflow("family", async ({ input: { url, left, had }, runId, start, sendEvent, waitForEvent, continueAsNew }: Context) => {
  if (left === 0) return had;
  const helping = start("helper", { url, parent: runId, n: left });
  const ready = (await waitForEvent("ready"))!;
  await sendEvent(ready.runId, "word", `word ${ready.n}`);
  return continueAsNew({ url, left: left - 1, had: [...had, await helping] });
}, options);

/** A child that sleeps goes with it. */
export const household = workflow("household", async ({ input: { url }, start }: Context) => start("patient", { url }), options);

/** Comes in, may go on as another run, and goes out: others see how many are inside. */
export const turns = workflow("turns", async ({ input: { url, name, goesOn }, step, continueAsNew }: Context) => {
  if (goesOn !== undefined) {
    await post(step, url, `in-${name}`);
    if (goesOn) return continueAsNew({ url, name });
  }
  return post(step, url, `out-${name}`);
}, options);
