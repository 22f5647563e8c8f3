// An order under load: writes that the other side deduplicates, a read beside them, a sleep, and for some a transfer that must not
// be sent twice.
import { workflow, type Context } from "stepwell";

interface Input {
  n: number;
  url: string;
  once: boolean;
  napMs: number;
}

export const load = workflow("load", async ({ input: { n, url, once, napMs }, step, sleep }: Context<Input>) => {
  const retry = { initialMs: 20, maxMs: 200, maxAttempts: 100 };
  const post = (name: string, effect: "keyed" | "once") =>
    step.run(name, async ({ http }) => (await http.post(`${url}/${name}/${n}`, { json: { n } }).ensureOk()).json(), { effect, retry });

  await post("reserve", "keyed");
  await Promise.all([
    post("charge", "keyed"),
    step.run("quote", async ({ http }) => (await http.get(`${url}/quote/${n}`).ensureOk()).json(), { retry }),
  ]);
  await sleep(napMs);
  if (once) await post("transfer", "once");
  await post("mail", "keyed");
  return { n };
}, { timeoutMs: 60_000, destinations: ["127.0.0.1:*"] });
