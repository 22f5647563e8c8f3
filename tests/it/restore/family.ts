// Runs that start others, or go on in others, once they are told to; what comes of it is one charge.
import { workflow, type Context } from "stepwell";

interface Order {
  url: string;
  order: string;
  effect: "keyed" | "once";
  left?: number;
}

const charge = ({ step }: Context<Order>, { url, order, effect }: Order) =>
  step.run("charge", async ({ http }) => (await http.post(`${url}/${order}`).ensureOk()).text(), { effect });

/** Has it charged by a child. */
export const boss = workflow("boss", async ({ input, waitForEvent, start }: Context<Order>) => {
  await waitForEvent("go");
  return start("clerk", input);
});

export const clerk = workflow("clerk", (context: Context<Order>) => charge(context, context.input), { destinations: ["127.0.0.1:*"] });

/** Has it charged by the run that goes on for it. */
export const heir = workflow("heir", async (context: Context<Order>) => {
  const { input, waitForEvent, continueAsNew } = context;
  if (!input.left) return charge(context, input);
  await waitForEvent("go");
  return continueAsNew({ ...input, left: 0 });
}, { destinations: ["127.0.0.1:*"] });
