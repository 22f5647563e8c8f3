// A run that writes much at once, so that its turns are committed in pieces: lines of workflow code, results, and its own result; and what
// must not be sent before all that is durable.
import { workflow, type Context } from "stepwell";

export const bulky = workflow("bulky", async ({ input: { shop }, step, log }: Context<{ shop: string }>) => {
  const retry = { initialMs: 10, maxMs: 50 };
  const tell = (what: string) => {
    for (let i = 0; i < 12; i++) log.info(`${what} ${i} ${"x".repeat(15_000)}`);
  };
  tell("before");
  const much = await step.run("much", () => "y".repeat(200_000));
  tell("between");
  const several = await Promise.all(["a", "b", "c"].map((name) => step.run(name, () => name.repeat(60_000))));
  const paid = await step.run(
    "pay",
    async ({ http }) => (await http.post(`${shop}/charges`, { json: { orderId: "bulky" } }).ensureOk()).status,
    { effect: "once", retry },
  );
  tell("after");
  return [much.length, several.join("").length, paid, "z".repeat(150_000)];
}, { timeoutMs: 20_000, destinations: ["127.0.0.1:*"] });
