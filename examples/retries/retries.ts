// A step that fails is attempted again: by its policy, or when the other side says, or not at all.
import { workflow, NonRetriableError, RetryAfterError, StepError, type Context } from "stepwell";

interface Input {
  orderId: string;
  /** Where the shop answers, e.g. `http://127.0.0.1:4810`. */
  shop: string;
}

export const retries = workflow("retries", async ({ input: { orderId, shop }, step }: Context<Input>) => {
  // By its policy. The shop refuses twice with 503, which `ensureOk` takes for worth another attempt; the third one succeeds.
  const charge = await step.run("charge", async ({ http }) =>
    (await http.post(`${shop}/charges`, { json: { orderId, amountCents: 500 } }).ensureOk()).json(),
    { effect: "keyed", retry: { maxAttempts: 4, initialMs: 100, multiplier: 2, jitter: 0 } });

  // When the other side says. A 429 with `Retry-After: 1` takes the place of the policy's delay.
  const label = await step.run("label", async ({ http }) =>
    (await http.post(`${shop}/labels`, { json: { orderId } }).ensureOk()).json(), { effect: "keyed" });

  // When the body says: the same for what is no answer of a server.
  const stock = await step.run("stock", ({ attempt }) => {
    if (attempt === 1) throw new RetryAfterError("the shelf is being counted", "0.3 s");
    return 12;
  });

  // Not at all. The workflow catches what the body threw, with its code and details, and goes on.
  const address = await step.run("address", () => {
    throw new NonRetriableError("there is no such street", { code: "shop.bad_address", details: { street: "Kade 7" } });
  }).catch((error) => {
    if (error instanceof StepError && error.code === "shop.bad_address") return error.details;
    throw error;
  });

  return { charge: charge.id, label: label.id, stock, wrong: address };
}, { destinations: ["127.0.0.1:*"] });
