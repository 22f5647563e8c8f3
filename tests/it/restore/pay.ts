import { workflow } from "stepwell";

const options = { destinations: ["127.0.0.1:*"] };
const retry = { maxAttempts: 5, initialMs: 10, multiplier: 1 };

/** A charge once it is let go, and a second one once it is let go again. */
export const pay = workflow("pay", async ({ input, step, waitForEvent }: any) => {
  const charge = (name: string) =>
    step.run(name, async ({ http, attempt, idempotencyKey, operationKey }: any) => {
      const json = { order: input.order, what: name, attempt, idempotencyKey, operationKey };
      return (await http.post(`${input.url}/${input.order}/${name}`, { json }).ensureOk()).text();
    }, { effect: input.effect, retry });
  await waitForEvent("go");
  const first = await charge("first");
  await waitForEvent("more");
  return [first, await charge("second")];
}, options);

/** Steps that may be repeated, without end, to have something written all the time. */
export const busy = workflow("busy", async ({ input, step }: any) => {
  for (let n = 0; n < input; n++) await step.run("tick", () => n);
  return input;
});

/** Sleeps, then charges. */
export const later = workflow("later", async ({ input, step, sleep }: any) => {
  await sleep(input.ms);
  return step.run("charge", async ({ http }: any) =>
    (await http.post(`${input.url}/later`, { json: {} }).ensureOk()).text(), { effect: "once", retry });
}, options);
