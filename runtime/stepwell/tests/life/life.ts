import { workflow } from "stepwell";

/** A run that comes to one state and stays there; when it is cancelled it cleans up. */
export const stay = workflow("stay", async ({ input, step, sleep, waitForEvent, start }: any) => {
  const post = (path: string) => async ({ http }: any) => (await http.post(`${input.url}${path}`, { json: 1 }).ensureOk()).text();
  const options = { effect: "keyed", retry: { maxAttempts: 3, initialMs: 3_600_000 } };
  try {
    switch (input.state) {
      case "executing":
        return await step.run("charge", post("/charge"), options);
      case "backing-off":
        return await step.run("fails", async () => { throw new Error("not yet"); }, options);
      case "sleeping":
        await sleep(input.ms ?? 86_400_000);
        return await step.run("after", post("/after"), options);
      case "waiting":
        return await waitForEvent("go");
      case "blocked":
        return await step.run("doubtful", post("/doubtful"), { ...options, effect: "once" });
      case "between":
        for (let n = 0; ; n++) await step.run("tick", async () => n);
      case "child":
        return await start("stay", { ...input, state: "waiting" });
      case "ending":
        void step.run("charge", post("/charge"), options);
        await sleep(100);
        return "early";
    }
  } catch (error) {
    await step.run("undo", post("/undo"), options);
    throw error;
  }
}, { destinations: ["127.0.0.1:*"] });
