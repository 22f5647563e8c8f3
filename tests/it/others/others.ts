// Runs that have to do with other runs.
import { workflow, type Context } from "stepwell";

/** Sends to each run what it is told to, and says what became of it. */
export const sender = workflow("sender", async ({ input, sendEvent }: Context<{ to: string[]; name: string; times: number }>) => {
  const became: string[] = [];
  for (let n = 0; n < input.times; n++) {
    for (const to of input.to) {
      try {
        await sendEvent(to, input.name, n);
        became.push("sent");
      } catch (error: any) {
        became.push(error.code);
      }
    }
  }
  return became;
});

/** Takes so many events of that name, in order. */
export const taker = workflow("taker", async ({ input, waitForEvent }: Context<{ name: string; times: number }>) => {
  const taken: number[] = [];
  while (taken.length < input.times) taken.push((await waitForEvent<number>(input.name))!);
  return taken;
});
