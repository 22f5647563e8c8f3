import { workflow } from "stepwell";

const steps = { destinations: ["127.0.0.1:*"], secrets: ["pay"] };
const order = { orderId: "o1", amountCents: 5 };

/** One POST. */
export const post = workflow("post", async ({ input, step }: any) =>
  step.run("charge", async ({ http, attempt }: any) => {
    const answer = await http.post(`${input.url}/charges`, { json: order, ...input.request }).ensureOk();
    return { attempt, recorded: answer.recorded, text: await answer.text() };
  }, input.options), steps);

/** The body repeats its failing POST by itself. */
export const loops = workflow("loops", async ({ input, step }: any) =>
  step.run("charge", async ({ http, attempt }: any) => {
    for (let times = 1; ; times++) {
      const answer = await http.post(`${input.url}/charges`, { json: order });
      if (answer.ok) return { attempt, times };
    }
  }, input.options), steps);

/** Asks again, and computes on in the same turn until the key of what was lost is dead. */
export const dies = workflow("dies", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => {
    await http.post(`${input.url}/charges`, { json: order }).catch(() => {});
    const again = http.post(`${input.url}/charges`, { json: order }).ensureOk();
    for (const began = Date.now(); Date.now() - began < input.computesMs; );
    return (await again).text();
  }, input.options), steps);

/** Gives up on an answer that is long in coming, and asks again. */
export const hurries = workflow("hurries", async ({ input, step }: any) =>
  step.run("charge", async ({ http, delay, attempt }: any) => {
    const charge = () => http.post(`${input.url}/charges`, { json: order }).ensureOk();
    const first = charge();
    const answer = attempt > 1 ? await first : (await Promise.race([first, delay(1)])) ?? (await charge());
    return { attempt, recorded: answer.recorded };
  }, input.options), steps);

/** Each attempt asks for another amount. */
export const changes = workflow("changes", async ({ input, step }: any) =>
  step.run("charge", async ({ http, attempt }: any) =>
    (await http.post(`${input.url}/charges`, { json: { ...order, amountCents: attempt } }).ensureOk()).text(), input.options), steps);

/** Two POSTs, one after the other. */
export const two = workflow("two", async ({ input, step }: any) =>
  step.run("both", async ({ http, attempt }: any) => {
    const first = await http.post(`${input.url}/first`, { json: order }).ensureOk();
    const second = await http.post(`${input.url}/second`, { json: order }).ensureOk();
    return { attempt, first: [first.recorded, first.status, await first.text()], second: [second.recorded, await second.text()] };
  }, input.options), steps);

/** The first attempt does not end once its POST is answered. */
export const lingers = workflow("lingers", async ({ input, step }: any) =>
  step.run("charge", async ({ http, attempt, delay }: any) => {
    const answer = await http.post(`${input.url}/charges`, { json: order }).ensureOk();
    if (attempt === 1) await delay("10 min");
    return { attempt, recorded: answer.recorded, text: await answer.text() };
  }, input.options), steps);

/** A body that goes on, whatever becomes of its request. */
export const late = workflow("late", async ({ input, step }: any) =>
  step.run("fetch", async ({ http, attempt }: any) => {
    try {
      return await http.request(input.method, `${input.url}/slow`).text();
    } catch (error: any) {
      return `late result of attempt ${attempt}: ${error.message}`;
    }
  }, input.options), steps);

/** What a GET comes to. */
export const get = workflow("get", async ({ input, step }: any) =>
  step.run("fetch", async ({ http }: any) => {
    const answer = await http.get(`${input.url}/thing?q=1`);
    return { status: answer.status, text: await answer.text() };
  }, input.options), steps);

/** How large the answer is, and its last characters. */
export const measures = workflow("measures", async ({ input, step }: any) =>
  step.run("fetch", async ({ http }: any) => {
    const text = await (await http.get(`${input.url}/thing`)).text();
    return [text.length, text.slice(-3)];
  }, input.options), steps);

let token: Promise<string> | undefined;

/** Two bodies share one token; a third waits for a sibling's result before it sends. */
export const shares = workflow("shares", async ({ input, step }: any) => {
  const { url } = input;
  const authorised = (name: string) =>
    step.run(name, async ({ http, fetch }: any) => {
      token ??= fetch(`${url}/token`).then((answer: any) => answer.text());
      return (await http.post(`${url}/${name}`, { json: order, headers: { "x-token": await token } }).ensureOk()).text();
    });
  const left = authorised("left");
  const right = authorised("right");
  const waiting = step.run("waiting", async ({ http }: any) =>
    (await http.post(`${url}/waiting`, { json: { after: await right } }).ensureOk()).text());
  return Promise.all([left, right, waiting]);
}, steps);

/** Names that could be taken for one another. */
export const names = workflow("names", async ({ input, step }: any) => {
  const told = (name: string) =>
    step.run(name, async ({ http, idempotencyKey, operationKey }: any) => {
      await http.post(`${input.url}/`, { json: order }).ensureOk();
      return [idempotencyKey, operationKey];
    });
  return Promise.all([told("a"), told("a"), told("a#2")]);
}, steps);

/** Sends a secret to a server that sends it back, and does with the answer whatever can be done. */
export const tells = workflow("tells", async ({ input, step, log, setStatus }: any) => {
  const headers = { authorization: "Bearer ${secret:pay}" };
  const answers = await step.run("echo", async ({ http }: any) => {
    const got = await http.get(`${input.url}/echo`, { headers });
    const posted = await http.post(`${input.url}/echo`, { headers, json: order });
    const told = [await got.text(), [...got.headers], await posted.text(), [...posted.headers]];
    console.log(told);
    return told;
  });
  log("the answers", answers);
  setStatus(JSON.stringify(answers));
  await step.run("refused", async ({ http }: any) => {
    const answer = await http.post(`${input.url}/refused`, { headers, json: order });
    throw new Error(`refused: ${await answer.text()}`, { cause: new Error(JSON.stringify([...answer.headers])) });
  }, { retry: { maxAttempts: 1 } });
}, steps);

/** Reads and writes, some at once. */
export const commits = workflow("commits", async ({ input, step }: any) => {
  const does = (name: string) =>
    step.run(name, async ({ http }: any) => {
      await http.get(`${input.url}/${name}`).ensureOk();
      return (await http.post(`${input.url}/${name}`, { json: order }).ensureOk()).text();
    }, { retry: { maxAttempts: 1 } });
  const first = await does("first");
  return [first, ...(await Promise.all([does("second"), does("third")]))];
}, steps);
