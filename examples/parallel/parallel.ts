// Steps at once: all of them, and the first of them.
import { race, workflow, type Context } from "stepwell";

export const parallel = workflow("parallel", async ({ step, sleep }: Context) => {
  // What takes its time here is a request in a real workflow.
  const quote = (carrier: string, takes: string, cents: number) =>
    step.run(`quote ${carrier}`, async ({ delay }) => {
      await delay(takes);
      return { carrier, cents };
    });

  // All of them. They run at the same time, and each is retried by itself; a crash repeats only those without a result.
  const quotes = await Promise.all([quote("hare", "100 ms", 1500), quote("tortoise", "600 ms", 700), quote("fox", "300 ms", 1100)]);
  const cheapest = quotes.reduce((a, b) => (b.cents < a.cents ? b : a));

  // The first of them. `race` closes what has lost: a step's attempt expires and its `signal` fires, a timer is removed.
  const courier = (name: string, takes: string) =>
    step.run(`courier ${name}`, async ({ delay }) => {
      await delay(takes);
      return name;
    });
  const first = await race([
    courier("north", "100 ms"),
    courier("south", "1 hour"),
    sleep("2 hours").then(() => "nobody"),
  ]);

  return { cheapest, first };
});
