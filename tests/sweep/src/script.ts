// Plays a program of the simulator's generator: statement by statement, with bodies that do what they are told.
import { workflow, race, NonRetriableError, RetryAfterError, type Context, type StepContext, type StepOptions, type StartOptions, type EffectKey } from "stepwell";

interface Call {
  method: string; path: string; body: number | null; drifting: boolean; key: EffectKey; label: string | null;
  timeoutMs: number | null; renewOn: number[]; then: "fail" | "ignore" | "repeat"; times: number;
}
type Act =
  | { kind: "send" | "fire"; call: Call } | { kind: "sendAll"; calls: Call[] } | { kind: "sendOrDelay" | "giveUpAndRepeat"; call: Call; ms: number }
  | { kind: "delay"; ms: number } | { kind: "sibling"; n: number } | { kind: "token" | "misuse" | "log" | "chance" };
interface Body { acts: Act[]; end: string; afterMs: number }
interface Plan { name: string; options: StepOptions; bodies: Body[] }
type Op =
  | { kind: "step"; caught: boolean; step: Plan } | { kind: "sleep"; caught: boolean; ms: number }
  | { kind: "wait"; caught: boolean; name: string; timeoutMs: number } | { kind: "send"; caught: boolean; name: string }
  | { kind: "child"; caught: boolean; ms: number; options: StartOptions };
type Stmt =
  | { kind: "do" | "start"; op: Op } | { kind: "join"; n: number } | { kind: "all"; branches: Stmt[][]; failFast: boolean }
  | { kind: "race"; ops: Op[]; closeAll: boolean } | { kind: "abandon"; ops: Op[]; afterMs: number | null }
  | { kind: "chance"; even: Stmt[]; odd: Stmt[] } | { kind: "measure"; ms: number } | { kind: "log" | "forever" | "throw" };
interface Script { url: string; main: Stmt[]; cleanup: Stmt[] }

/** A token that the bodies of an instance share; the first to need it fetches it. */
let token: Promise<unknown> | undefined;

export const script = workflow("script", async (context: Context<Script>) => {
  const { input: { url, main, cleanup }, step, sleep, waitForEvent, sendEvent, start, now, random, log } = context;
  const seen: string[] = [];
  const started: { promise: Promise<unknown>; caught: boolean }[] = [];
  const begun: Promise<unknown>[] = [];

  /** A child is another of these, which only sleeps. */
  const sleeper = (ms: number): Script => ({ url, main: [{ kind: "do", op: { kind: "sleep", caught: true, ms } }], cleanup: [] });

  async function perform(act: Act, body: StepContext, told: number[]): Promise<void> {
    const send = async (call: Call): Promise<void> => {
      for (let left = call.then === "repeat" ? call.times : 0; ; left--) {
        try {
          const key = typeof call.key === "object" ? { custom: call.key.custom + body.operationKey } : call.key;
          const text = call.body === null ? undefined : `body ${call.body} ${call.drifting ? body.attempt : 0}`;
          const response = await body.http.request(call.method, url + call.path, {
            body: text, key, label: call.label ?? undefined, timeoutMs: call.timeoutMs ?? undefined, renewOn: call.renewOn,
          }).ensureOk();
          told.push(response.status);
          return;
        } catch (error) {
          if (call.then === "ignore") return;
          if (left <= 0) throw error;
        }
      }
    };
    switch (act.kind) {
      case "send": return send(act.call);
      case "sendAll": { await Promise.all(act.calls.map(send)); return; }
      case "fire": { send(act.call).catch(() => {}); return; }
      case "sendOrDelay": { await Promise.race([send({ ...act.call, then: "ignore" }), body.delay(act.ms)]); return; }
      case "giveUpAndRepeat": {
        const first = send(act.call).then(() => true, () => true);
        if (!(await Promise.race([first, body.delay(act.ms).then(() => false)]))) await send(act.call);
        return;
      }
      case "delay": return body.delay(act.ms);
      case "token": {
        token ??= body.http.get(`${url}/token`, { timeoutMs: 1_000 }).catch((error: unknown) => { token = undefined; throw error; });
        await token;
        return;
      }
      case "sibling": { await Promise.race([begun[act.n % begun.length], body.delay(30)].map((p) => Promise.resolve(p).catch(() => {}))); return; }
      case "misuse": {
        let refused = false;
        try { step.run("inside", () => 1).catch(() => {}); } catch { refused = true; }
        if (!refused) throw new NonRetriableError("a body may begin a step");
        return;
      }
      case "log": { log("a body's line"); return; }
      case "chance": { Math.random(); return; }
    }
  }

  async function attempt(plan: Plan, body: StepContext): Promise<unknown> {
    const { acts, end, afterMs } = plan.bodies[Math.min(body.attempt, plan.bodies.length) - 1]!;
    const told: number[] = [];
    for (const act of acts) await perform(act, body, told);
    switch (end) {
      case "fail": throw new Error(`attempt ${body.attempt} fails`);
      case "failForGood": throw new NonRetriableError(`attempt ${body.attempt} fails`);
      case "failAfter": throw new RetryAfterError(`attempt ${body.attempt} fails`, afterMs);
      case "overrun": for (;;);
      case "hang": return new Promise(() => {});
      default: return { attempt: body.attempt, told };
    }
  }

  function begin(op: Op): Promise<unknown> {
    const promise = op.kind === "sleep" ? sleep(op.ms)
      : op.kind === "child" ? start("script", sleeper(op.ms), op.options)
      : op.kind === "send" ? sendEvent(context.runId, op.name, { from: 1 })
      : op.kind === "wait" ? waitForEvent(op.name, { timeoutMs: op.timeoutMs })
      : step.run(op.step.name, (body) => attempt(op.step, body), op.step.options);
    promise.catch(() => {});
    begun.push(promise);
    return promise;
  }

  async function join(promise: Promise<unknown>, caught: boolean): Promise<void> {
    try {
      seen.push(JSON.stringify(await promise) ?? "nothing");
    } catch (error) {
      seen.push(String(error));
      if (!caught) throw error;
    }
  }

  async function code(stmts: Stmt[]): Promise<void> {
    for (const stmt of stmts) await statement(stmt);
  }

  async function statement(stmt: Stmt): Promise<void> {
    switch (stmt.kind) {
      case "do": return join(begin(stmt.op), stmt.op.caught);
      case "start": { started.push({ promise: begin(stmt.op), caught: stmt.op.caught }); return; }
      case "join": {
        const one = started[stmt.n % (started.length || 1)];
        if (one) await join(one.promise, one.caught);
        return;
      }
      case "all": {
        const branches = stmt.branches.map(code);
        if (stmt.failFast) await Promise.all(branches);
        else for (const one of await Promise.allSettled(branches)) if (one.status === "rejected") throw one.reason;
        return;
      }
      case "race": {
        const ops = stmt.ops.map(begin);
        const all = ops.map((op, n) => op.then((value) => `won ${n} ${JSON.stringify(value)}`, (error) => { if (stmt.ops[n]!.caught) return `lost ${n} ${error}`; throw error; }));
        all.forEach((one) => one.catch(() => {}));
        // `race` closes what it is given, so it is given the operations themselves.
        if (stmt.closeAll) { try { seen.push(`first ${JSON.stringify(await race(ops))}`); } catch (error) { seen.push(String(error)); } }
        else seen.push(await Promise.race(all));
        return;
      }
      case "abandon": {
        const ops = stmt.ops.map(begin);
        await race([...ops, stmt.afterMs === null ? Promise.resolve() : sleep(stmt.afterMs)]).catch(() => {});
        return;
      }
      case "chance": {
        const chance = random();
        seen.push(`${chance}@${now()}`);
        return code(Math.floor(chance * 1000) % 2 === 0 ? stmt.even : stmt.odd);
      }
      case "measure": {
        const before = now();
        await sleep(stmt.ms);
        const slept = now() - before;
        if (slept < stmt.ms) throw new Error(`a sleep of ${stmt.ms} ms took ${slept} ms`);
        seen.push(`slept ${slept}`);
        return;
      }
      case "log": { log(`line after ${seen.length}`); return; }
      case "forever": { await new Promise(() => {}); return; }
      case "throw": throw new Error("thrown by the workflow");
    }
  }

  try {
    await code(main);
  } catch (error) {
    if (context.signal.aborted) await code(cleanup).catch(() => {});
    throw error;
  }
  return seen;
}, { destinations: ["127.0.0.1:*"] });
