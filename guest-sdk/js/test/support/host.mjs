// A scripted host: a test says what is delivered, and sees what the guest asked for. It keeps the contract's rules about turns:
// one event a turn, each once the guest is quiet, and commands that are refused in a turn of the wrong owner.

import assert from "node:assert/strict";

import { loadGuest } from "./guest.mjs";
import { COMMANDS, checkCall, error as isErrorRecord, wireError } from "./wire.mjs";

/// Loads `body` as a module that has imported everything of "stepwell".
export async function host(body, options = {}) {
  const scripted = new ScriptedHost(options);
  await scripted.load(body);
  return scripted;
}

/// Starts the workflow "w", whose handler is the source `handler`, and waits until it is quiet.
export async function started(handler, { input = null, ...options } = {}) {
  const scripted = await host(`workflow("w", ${handler});`, options);
  await scripted.start("w", input);
  return scripted;
}

export class ScriptedHost {
  /// `refuse` maps a command's name to a function of its arguments that answers an error record to refuse with.
  constructor({ refuse = {}, now = 1_700_000_000_000, base64 = true } = {}) {
    this.now = now;
    this.base64 = base64;
    this.refuse = refuse;
    this.logs = [];
    /// The fields of each of these, as JSON or null.
    this.fields = [];
    this.calls = [];
    this.building = true;
    this.trap = null;
    this.owner = null;
    this.exchangeOwners = [];
    this.nextOperation = 0;
    this.randoms = 0;
    this.pending = null;
  }

  async load(body) {
    const commands = {};
    for (const name of Object.keys(COMMANDS)) commands[name] = (...args) => this.command(name, args);
    const names = "workflow, race, HttpError, NonRetriableError, RetryAfterError, StepError, WorkflowError";
    const loaded = await loadGuest(`import { ${names} } from "stepwell";\n${body}`, { commands, turns: { next: () => this.next() } }, { base64: this.base64 });
    Object.assign(this, loaded, { building: false });
  }

  async start(workflow, input) {
    this.building = false;
    this.outcome = null;
    // The guest's realm may have been patched by the test: this realm's `then` takes its promise all the same.
    Promise.prototype.then.call(
      this.guest.run(workflow, JSON.stringify(input)),
      (value) => (this.outcome = { ok: JSON.parse(value) }),
      (error) => (this.outcome = { err: own(error) }),
    );
    await this.quiet();
  }

  /// Until the guest has nothing left to do: every microtask has run.
  async quiet() {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.trap) throw this.trap;
    if (this.outcome === null && !this.pending) throw new Error("the guest is idle without waiting for an event");
    if (this.outcome?.err) assert.ok(isErrorRecord(this.outcome.err), `no error record: ${this.outcome.err?.stack ?? this.outcome.err}`);
  }

  next() {
    if (this.pending) this.trap = new Error("a second pending next");
    return new Promise((resolve) => (this.pending = resolve));
  }

  async deliver(tag, val, owner = null) {
    assert.equal(this.outcome, null, "the run has ended");
    const resolve = this.pending;
    this.pending = null;
    this.owner = owner;
    resolve(val === undefined ? { tag } : { tag, val });
    await this.quiet();
  }

  complete(operation, value = null) {
    return this.deliver("completed", { operation, value: JSON.stringify(value) });
  }

  fail(operation, fields) {
    return this.deliver("failed", { operation, error: wireError(fields) });
  }

  attempt(operation, number = 1, kind = "execute") {
    const id = { operation, number };
    const val = { id, kind, idempotencyKey: `run_1:s${operation}:${number}`, operationKey: `run_1:s${operation}`, deadlineMs: null, unknown: [] };
    return this.deliver("attempt", val, id);
  }

  expire(operation, number = 1) {
    return this.deliver("expired", { operation, number }, { operation, number });
  }

  respond(exchange, status, body = "", headers = []) {
    const bytes = new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
    return this.answer(exchange, { tag: "ok", val: { tag: "response", val: { status, headers, body: bytes, recorded: false } } });
  }

  elapse(exchange) {
    return this.answer(exchange, { tag: "ok", val: { tag: "elapsed" } });
  }

  breakOff(exchange, fields) {
    return this.answer(exchange, { tag: "err", val: wireError(fields) });
  }

  answer(exchange, answer) {
    return this.deliver("answered", { exchange, answer }, this.exchangeOwners[exchange]);
  }

  /// Runs attempt `number` of a step whose body only computes, and delivers its success.
  async runStep(operation, number = 1) {
    await this.attempt(operation, number);
    const outcome = this.finished(operation, number);
    assert.equal(outcome?.tag, "ok", `attempt ${number} of operation ${operation}: ${JSON.stringify(outcome)}`);
    await this.complete(operation, JSON.parse(outcome.val));
  }

  /// What an attempt answered, if it has.
  finished(operation, number = 1) {
    const call = this.made("stepFinish").find(([id]) => id.operation === operation && id.number === number);
    return call?.[1];
  }

  /// The arguments of every call of a command so far.
  made(name) {
    return this.calls.filter((call) => call.name === name).map((call) => call.args);
  }

  /// Names of the operations begun and closed so far, in order, with their first argument.
  story() {
    const told = ["stepBegin", "sleep", "waitEvent", "startRun", "sendEvent", "close", "continueAsNew"];
    return this.calls.filter(({ name }) => told.includes(name)).map(({ name, args }) => `${name} ${args[0]}`);
  }

  command(name, args) {
    try {
      checkCall(name, args);
      if (this.building && name !== "log") throw new Error(`${name} was called while the module was being evaluated`);
    } catch (trap) {
      this.trap ??= trap;
      throw trap;
    }
    const refusal = this.refuse[name]?.(...args) ?? this.ruleOf(name);
    if (refusal) throw wireError(refusal);
    if (name === "log") {
      this.logs.push(`${args[0]}: ${args[1]}`);
      this.fields.push(args[2]);
    } else this.calls.push({ name, args: args.map(own) });
    return this.result(name, args);
  }

  ruleOf(name) {
    const begins = ["stepBegin", "sleep", "waitEvent", "startRun", "sendEvent"].includes(name);
    if (begins && this.owner) return { code: "workflows.operation_inside_step", message: `${name} in a step's body` };
    return undefined;
  }

  result(name, args) {
    switch (name) {
      case "stepBegin":
      case "sleep":
      case "waitEvent":
      case "startRun":
      case "sendEvent":
        return this.nextOperation++;
      case "httpSend":
      case "delay":
        return this.exchangeOwners.push(own(args[0])) - 1;
      case "nowMs":
        return this.owner ? this.now + 5 : this.now;
      case "randomU64":
        return (++this.randoms * 0x9e3779b97f4a7c) % 2 ** 64;
      case "runId":
        return "run_1";
      default:
        return undefined;
    }
  }
}

/// A value of the guest's realm as one of this realm, so that tests can compare it.
function own(value) {
  if (ArrayBuffer.isView(value)) return new TextDecoder().decode(value);
  if (Array.isArray(value)) return Array.from(value, own);
  if (typeof value !== "object" || value === null) return value;
  return value.message && value.stack ? value : Object.fromEntries(Object.entries(value).map(([key, item]) => [key, own(item)]));
}
