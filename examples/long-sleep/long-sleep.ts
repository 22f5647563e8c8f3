// A workflow that takes months. While it sleeps it is a row in a database: no process, no memory, no timer of yours.
import { workflow, type Context } from "stepwell";

interface Trial {
  customer: string;
}

export const trial = workflow("trial", async ({ input: { customer }, step, sleep, sleepUntil, now, log }: Context<Trial>) => {
  const started = now();
  const day = () => Math.round((now() - started) / 86_400_000);

  await step.run("welcome", () => `welcome, ${customer}`); // an e-mail, in a real workflow
  await sleep("27 days");
  log("the trial ends soon", { day: day() });
  await step.run("remind", () => `three days left, ${customer}`);

  // Until a point in time: what passed meanwhile, in steps or while no process ran, does not put it off.
  await sleepUntil(started + 30 * 86_400_000);
  log("the trial is over", { day: day() });
  const invoice = await step.run("invoice", () => `invoice for ${customer}`);

  await sleep("365 days");
  log("a year later", { day: day() });
  return { invoice, days: day() };
});
