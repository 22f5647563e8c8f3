// The workflows that are measured, in one module.
import { workflow, type Context } from "stepwell";

/** Steps that only compute, one after the other. */
export const compute = workflow("compute", async ({ input, step }: Context<{ steps: number }>) => {
  let sum = 0;
  for (let i = 0; i < input.steps; i++) sum += await step.run("add", () => i);
  return sum;
});

/** Steps that each post to a server, one after the other. */
export const post = workflow("post", async ({ input, step }: Context<{ steps: number; url: string }>) => {
  let sum = 0;
  for (let i = 0; i < input.steps; i++) {
    sum += await step.run("post", async ({ http }) => (await http.post(input.url, { json: { i } }).ensureOk()).status);
  }
  return sum;
}, { destinations: ["127.0.0.1:*"] });

/** One step, then a long sleep. */
export const sleeper = workflow("sleeper", async ({ step, sleep }: Context<null>) => {
  const one = await step.run("one", () => 1);
  await sleep("1 day");
  return one;
});
