// A payment without deduplication at the other side: it must not be sent twice, whatever happens.
import { workflow, type Context } from "stepwell";

interface Input {
  orderId: string;
  /** Where the shop answers, e.g. `http://127.0.0.1:4810`. */
  shop: string;
}

export const once = workflow("once", async ({ input: { orderId, shop }, step }: Context<Input>) => {
  // The shop charges, and its answer is lost. Nobody can know from here whether the charge was made, so it is not sent again:
  // the step is `unknown`, and the run, which needs its result, `blocked`.
  const charge = await step.run("charge", async ({ http }) =>
    (await http.post(`${shop}/charges`, { json: { orderId, amountCents: 500 } }).ensureOk()).json(), { effect: "once" });

  return { charge: charge.id };
}, { destinations: ["127.0.0.1:*"] });
