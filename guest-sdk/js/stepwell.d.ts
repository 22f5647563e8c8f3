// Types of the module "stepwell". The web globals (`fetch`, `URL`, `console`, timers, ...) are those of TypeScript's "DOM" library.

declare module "stepwell" {
  /** Milliseconds, or a text such as `"30 s"`, `"1.5 h"`, `"2 days"`, `"1 h 30 min"`. A fraction of a millisecond is rounded up. */
  export type Duration = number | string;

  /** A value as it looks after `JSON.parse(JSON.stringify(value))`: what a step's result is when the workflow gets it. */
  export type Json<T> = T extends { toJSON(): infer U }
    ? Json<U>
    : T extends string | number | boolean | null
      ? T
      : T extends undefined | void
        ? null
        : T extends bigint | symbol | ((...args: never[]) => unknown)
          ? never
          : T extends readonly unknown[]
            ? { [K in keyof T]: Json<T[K]> }
            : T extends object
              ? { [K in keyof T as T[K] extends (...args: never[]) => unknown ? never : K]: JsonField<T[K]> }
              : T;

  /** A field that is `undefined` is left out, not made `null`. */
  type JsonField<T> = undefined extends T ? Json<Exclude<T, undefined>> | undefined : Json<T>;

  /** Fields left out keep the workflow's default, and those that it leaves out keep the host's. */
  export interface RetryPolicy {
    /** Attempts in all, the first included: 1 to 100. Default 5. */
    maxAttempts?: number;
    /** Delay before the second attempt. Default 1000. */
    initialMs?: number;
    /** Longest delay, up to 24 h. Default 10 min. */
    maxMs?: number;
    /** Growth per attempt: 1 to 10. Default 2. */
    multiplier?: number;
    /** The share of the delay that is random: 0 to 1. Default 0.2. */
    jitter?: number;
  }

  /**
   * What a repetition of a step's body would do to the world.
   * - `repeatable` (default): reads and idempotent writes; retried.
   * - `keyed`: writes that the other side deduplicates by key; retried under the same key while it lives.
   * - `once`: writes that must not happen twice; never sent again by itself once they may have happened.
   */
  export type Effect = "repeatable" | "keyed" | "once";

  export interface StepOptions {
    retry?: RetryPolicy;
    /** How long an attempt may take; at most 24 h. */
    timeoutMs?: number;
    effect?: Effect;
    /** How long the other side knows a key, from its first send. Default 24 h. */
    keyTtlMs?: number;
    /** The same operation across runs: answered from the record, never done again. */
    operationKey?: string;
  }

  export interface WorkflowOptions {
    /** The default of its steps. */
    retry?: RetryPolicy;
    /** The default time-out of its steps' attempts. */
    timeoutMs?: number;
    /** How long a run may be open. */
    runTimeoutMs?: number;
    /** JSON Schema of the input. */
    inputSchema?: object | boolean;
    /** Hosts that its steps talk to, e.g. `"api.stripe.com"`, `"*.example.com:8443"`. */
    destinations?: string[];
    /** Names of the secrets that it uses. A header value may hold `${secret:NAME}`. */
    secrets?: string[];
  }

  export interface Steps {
    /**
     * Runs `body` at least once and records its result once: a step whose result is recorded never runs again. Where its
     * attempts are used up, the last error is thrown here.
     * A call that is refused (wrong arguments, or a call inside a step's body) throws at once.
     */
    run<T>(name: string, body: (context: StepContext) => T | PromiseLike<T>, options?: StepOptions): Promise<Json<T>>;
  }

  export interface Context<Input = any> {
    /** What the run was started with. */
    readonly input: Input;
    readonly runId: string;
    readonly step: Steps;
    /** Sleeps durably, up to ten years. */
    sleep(duration: Duration): Promise<void>;
    /** Sleeps until a point in time: a `Date`, ms since the Unix epoch, or a date text. */
    sleepUntil(instant: Date | number | string): Promise<void>;
    /** Waits for an event to this run: its payload, or `null` when it did not come in time. */
    waitForEvent<T = any>(name: string, options?: { timeoutMs?: number }): Promise<T | null>;
    /**
     * Starts a child run and waits for its result, or with `detached` only for its start: then the answer is its run id. The workflow is
     * this module's own where it has one of that name, else that of the module which is active for it. Where the child fails, is
     * cancelled or terminated, its error is thrown here.
     */
    start(workflow: string | Workflow, input: unknown, options: StartOptions & { detached: true }): Promise<string>;
    start<Output>(workflow: Workflow<any, Output>, input?: unknown, options?: StartOptions): Promise<Json<Output>>;
    start<Output = any>(workflow: string, input?: unknown, options?: StartOptions): Promise<Output>;
    /** Sends an event to another run. */
    sendEvent(runId: string, name: string, payload?: unknown): Promise<void>;
    /**
     * Ends this run and goes on in a fresh one with an empty journal: `return continueAsNew(input)`. That one has this one's run key,
     * tags and parent, and the events that were not waited for. What is answered never settles. Refused once the run was cancelled.
     */
    continueAsNew(input: unknown): Promise<never>;
    /** Ms since the Unix epoch, as recorded. */
    now(): number;
    /** Uniform in [0, 1), the same on replay. */
    random(): number;
    readonly log: Log;
    /** A short text on where the run is, for people. */
    setStatus(text: string): void;
    /** Fires when the run is asked to cancel. Open operations then fail with the code `workflows.cancelled`. */
    readonly signal: AbortSignal;
  }

  export interface StartOptions {
    /**
     * At most one run has it, for ever. Where a run of the same workflow and input has it already, a detached start answers that one;
     * any other fails with `workflows.run_key_conflict`.
     */
    runKey?: string;
    detached?: boolean;
    /** What becomes of the child when this run ends, is cancelled, or loses interest in it (`race`). Default `cancel`: it is asked to. */
    onParentClose?: "cancel" | "abandon";
    tags?: Record<string, string>;
  }

  type LogLine = (message: unknown, fields?: unknown) => void;

  /**
   * A line of the run's log, with fields of data. `log(...)` is `log.info(...)`. Nothing is refused: a message that is no text (an error, for
   * one) and fields that JSON has no form for are shown as `console` shows them.
   */
  export interface Log extends LogLine {
    trace: LogLine;
    debug: LogLine;
    info: LogLine;
    warn: LogLine;
    error: LogLine;
  }

  /** What the body of a step is given. */
  export interface StepContext {
    /** `<runId>:<stepId>:<attempt>` */
    readonly idempotencyKey: string;
    /** `<runId>:<stepId>`, or the step's own operation key: the same for every attempt. */
    readonly operationKey: string;
    /** From 1. */
    readonly attempt: number;
    /** Fires when the attempt is closed: its time is over, or nobody waits for it any more. */
    readonly signal: AbortSignal;
    readonly http: Http;
    fetch(input: string | URL | Request, init?: FetchOptions): Promise<HttpResponse>;
    /** Waits within the body. Not recorded: workflow code sleeps with `sleep`. */
    delay(duration: Duration): Promise<void>;
  }

  /** What the request's `Idempotency-Key` header is to be. Default `effect`: kept while anything sent under it may have happened. */
  export type EffectKey = "effect" | "attempt" | "operation" | "none" | { custom: string };

  /** Stepwell's own options of a request. */
  export interface RequestExtras {
    /** How long to wait for the whole answer. */
    timeoutMs?: number;
    key?: EffectKey;
    /** Tells requests of one body apart, where method and URL do not. */
    label?: string;
    /** Statuses on which the other side is known to have done nothing, e.g. `[500]`. */
    renewOn?: number[];
  }

  type RequestBody = string | URLSearchParams | ArrayBuffer | ArrayBufferView;
  type HeaderPairs = Headers | Record<string, string> | Iterable<readonly [string, string]>;

  export interface FetchOptions extends RequestExtras {
    method?: string;
    headers?: HeaderPairs;
    body?: RequestBody | null;
    signal?: AbortSignal | null;
    /** Redirects of GET and HEAD are followed by default; those of other methods are answers like any other. */
    redirect?: "follow" | "manual" | "error";
  }

  export interface HttpOptions extends Omit<FetchOptions, "method"> {
    /** Sent as JSON. */
    json?: unknown;
    /** Appended to the URL's query. */
    query?: Record<string, unknown> | Iterable<readonly [string, unknown]>;
  }

  export interface HttpResponse extends Response {
    /** Answered from an earlier attempt's record: nothing was sent. */
    readonly recorded: boolean;
    clone(): HttpResponse;
    /** This response where its status is 2xx; else throws an `HttpError`, which is retried or not by its status. */
    ensureOk(): Promise<HttpResponse>;
  }

  export interface ResponsePromise extends Promise<HttpResponse> {
    ensureOk(): ResponsePromise;
    json(): Promise<any>;
    text(): Promise<string>;
  }

  type HttpVerb = (url: string | URL, options?: HttpOptions) => ResponsePromise;

  export interface Http {
    request(method: string, url: string | URL, options?: HttpOptions): ResponsePromise;
    get: HttpVerb;
    head: HttpVerb;
    post: HttpVerb;
    put: HttpVerb;
    patch: HttpVerb;
    delete: HttpVerb;
  }

  /** A registered workflow. */
  export interface Workflow<Input = any, Output = any> {
    readonly name: string;
    readonly handler: (context: Context<Input>) => Output | PromiseLike<Output>;
  }

  /** Registers a workflow under a name that is its own in the module. Call it at the module's top level. */
  export function workflow<Input = any, Output = any>(
    name: string,
    handler: (context: Context<Input>) => Output | PromiseLike<Output>,
    options?: WorkflowOptions,
  ): Workflow<Input, Output>;

  /**
   * The first of these to settle; the operations among the others are closed: a wait gives its place up, a timer is removed, a
   * step's attempt expires. (`Promise.race` closes only timers and waits, and only where nothing else awaits them.)
   */
  export function race<T extends readonly unknown[] | []>(contenders: T): Promise<Awaited<T[number]>>;
  export function race<T>(contenders: Iterable<T>): Promise<Awaited<T>>;

  export interface ErrorFields {
    cause?: unknown;
    /** A stable code of your own, e.g. `"shop.payment_declined"`. */
    code?: string;
    /** Data that is recorded with the error; must be JSON. */
    details?: unknown;
  }

  /** Thrown by a step's body, also as another error's `cause`: no further attempt. */
  export class NonRetriableError extends Error {
    constructor(message?: string, options?: ErrorFields);
    code?: string;
    details?: unknown;
  }

  /** Thrown by a step's body, also as another error's `cause`: the next attempt after this time (0 to 24 h), in place of the policy's delay. */
  export class RetryAfterError extends Error {
    constructor(message: string, retryAfter: Duration | Date, options?: ErrorFields);
    readonly retryAfterMs: number;
    code?: string;
    details?: unknown;
  }

  /** What Stepwell itself refuses or reports. */
  export class WorkflowError extends Error {
    constructor(code: string, message: string, options?: ErrorFields & { name?: string; outcomeUnknown?: boolean });
    /** Stable, e.g. `"workflows.step_timeout"`. */
    readonly code: string;
    readonly details?: any;
    /** An effect may have happened. */
    readonly outcomeUnknown: boolean;
    /** What stands for it in a result, e.g. of `Promise.allSettled`. */
    toJSON(): { name: string; message: string; code: string; details?: any; outcomeUnknown: boolean };
  }

  /** A failed operation, as recorded. `name`, `message`, `code`, `details` and the chain of causes are those of the error that the body threw. */
  export class StepError extends WorkflowError {}

  /** A status that `ensureOk` turned into an error. Its `details` are `{ status, method, url, body?, retryAfterMs? }`. */
  export class HttpError extends WorkflowError {
    readonly status: number;
  }
}
