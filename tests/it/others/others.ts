// Runs that have to do with other runs.
import { race, workflow, type Context } from "stepwell";

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

/** Takes an event in each of its runs, and goes on with a sum in a fresh one until it has so many. */
export const adder = workflow("adder", async ({ input, waitForEvent, continueAsNew }: Context<{ sum: number; left: number }>) => {
  const { sum, left } = input;
  if (left === 0) return sum;
  const came = (await waitForEvent<number>("add"))!;
  await continueAsNew({ sum: sum + came, left: left - 1 });
  throw new Error("nothing runs after it");
});

/** Goes on so often, and then returns how it began. */
export const rounds = workflow("rounds", ({ input, continueAsNew }: Context<{ left: number }>) =>
  input.left > 0 ? continueAsNew({ left: input.left - 1 }) : "at last");

class Broke extends Error {
  name = "Broke";
  code = "shop.broke";
  details = { cents: 5 };
}

/** A child that does as it is told. */
export const child = workflow("child", async ({ input, sleep, step, waitForEvent }: Context<any>) => {
  switch (input.does) {
    case "returns": return step.run("work", () => input.value);
    case "fails": throw new Broke("no money");
    case "waits": return await waitForEvent("go");
    case "charges": return step.run("charge", async ({ http }) => (await http.post(input.url).ensureOk()).status, { effect: "once" });
    case "naps": return void (await sleep(input.ms));
    case "sleeps":
      try {
        await sleep("1 day");
      } catch (error) {
        await step.run("clean up", () => null);
        throw error;
      }
  }
}, { destinations: ["127.0.0.1:*"] });

/** Starts children, each with a name, and says what became of them. */
export const parent = workflow("parent", async ({ input, start, waitForEvent }: Context<any>) => {
  const became = await Promise.allSettled(input.children.map((one: any) => start(one.workflow ?? "child", one.input, one.options)));
  if (input.thenWaits) await waitForEvent("end");
  return became.map((one: any) => (one.status === "fulfilled" ? one.value : { name: one.reason.name, code: one.reason.code, message: one.reason.message, details: one.reason.details }));
});

/** Loses interest in a child once the event is there. */
export const loser = workflow("loser", async ({ start, waitForEvent }: Context) => {
  await race([start("child", { does: "sleeps" }), waitForEvent("enough")]);
  return "enough";
});

/** A family of so many generations. */
export const generations = workflow("generations", async ({ input, start }: Context<number>): Promise<any> =>
  input === 0 ? "the last" : start("generations", input - 1));
