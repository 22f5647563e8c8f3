// A little of everything whose rules can be broken: writes side by side whose order is told, a write that must not be sent twice and
// follows a read (so that all before it is durable already), a body that takes its time, a sleep.
import { workflow, type Context } from "stepwell";

export const mixed = workflow("mixed", async ({ input: { shop }, step, sleep }: Context<{ shop: string }>) => {
  const retry = { initialMs: 10, maxMs: 50 };
  const post = (name: string, path: string, effect: "keyed" | "once") =>
    step.run(name, async ({ http }) => (await http.post(shop + path, { json: { orderId: name } }).ensureOk()).json(), { effect, retry });
  const lookAndPost = (name: string, path: string, effect: "keyed" | "once") =>
    step.run(name, async ({ http }) => {
      await http.get(shop + path);
      return (await http.post(shop + path, { json: { orderId: name } }).ensureOk()).json();
    }, { effect, retry });

  const order: string[] = [];
  await Promise.all(["a", "b"].map((name) => post(name, "/labels", "keyed").then(() => order.push(name))));
  // Whoever is told in another order than before goes another way.
  await step.run(`first was ${order[0]}`, () => order.length);
  await step.run("think", ({ delay }) => delay(40));
  await lookAndPost("pay", "/charges", "once");
  await sleep("40 ms");
  await post("mail", "/emails", "keyed");
  return "done";
}, { timeoutMs: 10_000, destinations: ["127.0.0.1:*"] });
