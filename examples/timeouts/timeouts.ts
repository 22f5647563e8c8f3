// What takes too long is given up: an attempt of a step, a part of a body, a wait.
import { workflow, type Context } from "stepwell";

interface Input {
  orderId: string;
  /** Where the shop answers, e.g. `http://127.0.0.1:4810`. */
  shop: string;
}

export const timeouts = workflow("timeouts", async ({ input: { orderId, shop }, step, waitForEvent }: Context<Input>) => {
  // An attempt. The shop stores the first charge and says nothing: after 2 s the request is torn down, and the next attempt
  // carries the same key, so that the shop answers from its record.
  const charge = await step.run("charge", async ({ http }) =>
    (await http.post(`${shop}/charges`, { json: { orderId, amountCents: 500 } }).ensureOk()).json(),
    { effect: "keyed", timeoutMs: 2_000, retry: { initialMs: 100, jitter: 0 } });

  // A part of a body. `signal` fires when the attempt is over; joined with one of the body's own, whichever comes first ends the
  // question, and the body goes on with what it has.
  const gift = await step.run("gift", async ({ http, signal }) => {
    const patience = AbortSignal.any([signal, AbortSignal.timeout(250)]);
    try {
      return await http.get(`${shop}/orders/${orderId}`, { signal: patience }).json();
    } catch (error) {
      if ((error as Error).name !== "TimeoutError") throw error;
      return "a card"; // it did not say in time what was ordered before
    }
  });

  // A wait: `null` when the event did not come in time.
  const review = await waitForEvent("review", { timeoutMs: 300 });

  return { charge: charge.id, gift, review };
}, { destinations: ["127.0.0.1:*"] });
