// Requests of a body: what the host is asked for, how answers look, which failures are retried, to whom a fetch belongs.

import assert from "node:assert/strict";
import test from "node:test";

import { started } from "./support/host.mjs";

async function bodyOf(source) {
  const run = await started(`({ step }) => step.run("a", async ({ http, fetch, delay }) => { ${source} })`);
  await run.attempt(0);
  return run;
}

function sent(run, index = 0) {
  return run.made("httpSend")[index][1];
}

function failure(run) {
  const { tag, val } = run.finished(0);
  assert.equal(tag, "err");
  return val;
}

test("http.post sends JSON; ensureOk works on the promise", async () => {
  const run = await bodyOf(`return (await http.post("https://pay.example/charges?a=1", { json: { amount: 5 }, headers: { "X-A": "b" } }).ensureOk()).json();`);
  assert.deepEqual(sent(run), {
    method: "POST", url: "https://pay.example/charges?a=1", headers: [["content-type", "application/json"], ["x-a", "b"]],
    body: '{"amount":5}', timeoutMs: null, key: { tag: "effect" }, label: null, renewOn: [],
  });
  await run.respond(0, 201, { id: "ch_1" });
  assert.deepEqual(JSON.parse(run.finished(0).val), { id: "ch_1" });
});

test("the options of a request reach the host", async () => {
  const run = await bodyOf(`await http.request("REPORT", "https://a.example", { body: "x", query: { q: "a b", n: [1, 2] }, timeoutMs: 50, key: "operation", label: "l", renewOn: [500] });`);
  const { method, url, timeoutMs, key, label, renewOn, headers } = sent(run);
  assert.deepEqual([method, url, timeoutMs, key, label, renewOn], ["REPORT", "https://a.example/?q=a+b&n=1&n=2", 50, { tag: "operation" }, "l", [500]]);
  assert.deepEqual(headers, [["content-type", "text/plain;charset=UTF-8"]]);
});

test("a key given as a header is the request's key", async () => {
  const run = await bodyOf(`await fetch("https://a.example", { method: "post", headers: { "Idempotency-Key": "mine" } });`);
  assert.deepEqual(sent(run).key, { tag: "custom", val: "mine" });
  assert.deepEqual(sent(run).headers, []);
  assert.equal(sent(run).method, "POST");
});

test("a secret's place in a header is left for the host", async () => {
  const run = await bodyOf('await fetch("https://a.example", { headers: { Authorization: "Bearer ${secret:pay}" } });');
  assert.deepEqual(sent(run).headers, [["authorization", "Bearer ${secret:pay}"]]);
});

const STATUSES = [
  [400, "never"], [401, "never"], [404, "never"], [409, "never"], [422, "never"], [425, "never"], [501, "never"],
  [408, "retry"], [429, "retry"], [500, "retry"], [502, "retry"], [503, "retry"], [504, "retry"],
];

test("ensureOk tells what is worth retrying", async (t) => {
  for (const [status, tag] of STATUSES) {
    await t.test(String(status), async () => {
      const run = await bodyOf(`await http.get("https://u:p@a.example/x?secret=1").ensureOk();`);
      await run.respond(0, status, "because");
      const { code, name, message, details, retryability } = failure(run);
      assert.deepEqual([code, name, retryability.tag], ["workflows.http_status", "HttpError", tag]);
      assert.equal(message, `GET https://a.example/x answered ${status}: because`);
      assert.deepEqual(JSON.parse(details), { status, method: "GET", url: "https://a.example/x", body: "because" });
    });
  }
});

const NOW = 1_700_000_000_005;
const RETRY_AFTER = [
  ["7", 7000], [new Date(NOW + 9995).toUTCString(), 9995], ["Sunday, 06-Nov-94 08:49:37 GMT", 0], ["Sun Nov  6 08:49:37 1994", 0],
  ["999999999", 86_400_000], ["soon", null], ["", null],
];

test("Retry-After is honoured, in seconds and as a date", async (t) => {
  for (const [header, ms] of RETRY_AFTER) {
    await t.test(header, async () => {
      const run = await bodyOf(`await http.get("https://a.example").ensureOk();`);
      await run.respond(0, 503, "", [["retry-after", header]]);
      assert.deepEqual(failure(run).retryability, ms === null ? { tag: "retry" } : { tag: "after-ms", val: ms });
    });
  }
});

test("Retry-After does not make a refusal worth retrying", async () => {
  const run = await bodyOf(`await http.get("https://a.example").ensureOk();`);
  await run.respond(0, 403, "", [["retry-after", "1"]]);
  assert.deepEqual(failure(run).retryability, { tag: "never" });
});

test("a request that fails rejects with the host's error", async () => {
  const run = await bodyOf(`await http.post("https://a.example", { json: 1 });`);
  await run.breakOff(0, { code: "workflows.connect_failed", message: "refused", outcomeUnknown: false });
  const { code, message, retryability } = failure(run);
  assert.deepEqual([code, message, retryability], ["workflows.connect_failed", "refused", { tag: "retry" }]);
});

test("a request that the host refuses rejects with its error, flag included", async () => {
  const refuse = { httpSend: () => ({ code: "workflows.destination_refused", message: "not allowed", retry: "never" }) };
  const run = await started(`({ step }) => step.run("a", async ({ http }) => { await http.get("https://a.example"); })`, { refuse });
  await run.attempt(0);
  assert.deepEqual([failure(run).code, failure(run).retryability], ["workflows.destination_refused", { tag: "never" }]);
});

test("a response is read once, or from a clone", async () => {
  const run = await bodyOf(`
    const response = await fetch("https://a.example/");
    const copy = response.clone();
    const first = await response.text();
    const again = await response.json().catch((error) => error.message);
    return [response.status, response.ok, response.url, response.headers.get("X-A"), response.bodyUsed, first, again, (await copy.json()).a];`);
  await run.respond(0, 200, { a: "é" }, [["x-a", "1"], ["X-A", "2"]]);
  const [status, ok, url, header, used, first, again, json] = JSON.parse(run.finished(0).val);
  assert.deepEqual([status, ok, url, header, used, first, json], [200, true, "https://a.example/", "1, 2", true, '{"a":"é"}', "é"]);
  assert.match(again, /read already/);
});

test("redirects of safe requests are followed, without credentials to another origin", async () => {
  const run = await bodyOf(`const r = await fetch("https://a.example/x", { headers: { Authorization: "t", "X-A": "b" } }); return [r.url, r.redirected];`);
  await run.respond(0, 302, "", [["location", "/y"]]);
  assert.deepEqual([sent(run, 1).url, sent(run, 1).headers], ["https://a.example/y", [["authorization", "t"], ["x-a", "b"]]]);
  assert.equal(sent(run, 1).timeoutMs, null, "it was given none");
  await run.respond(1, 307, "", [["location", "https://b.example/"]]);
  assert.deepEqual([sent(run, 2).url, sent(run, 2).headers], ["https://b.example/", [["x-a", "b"]]]);
  await run.respond(2, 200);
  assert.deepEqual(JSON.parse(run.finished(0).val), ["https://b.example/", true]);
});

test("nothing that was meant for one origin alone is taken to another", async () => {
  const run = await bodyOf(`
    const headers = { Cookie: "a=b", "X-Key": "\${secret:pay}", "Idempotency-Key": "mine", "X-A": "b" };
    return (await http.get("https://a.example/x", { headers, timeoutMs: 500 })).status;`);
  assert.deepEqual(sent(run, 0).key, { tag: "custom", val: "mine" });
  await run.respond(0, 302, "", [["location", "//b.example/y"]]);
  const { url, headers, key, timeoutMs } = sent(run, 1);
  assert.deepEqual([url, headers, key], ["https://b.example/y", [["x-a", "b"]], { tag: "effect" }]);
  assert.ok(timeoutMs >= 1 && timeoutMs <= 500, "the time is that of all of it");
  await run.respond(1, 200);
  assert.equal(run.finished(0).val, "200");
});

test("a redirect is followed, an answer, or an error, as is asked for", async () => {
  const answers = [];
  for (const redirect of ["follow", "manual", "error"]) {
    const run = await bodyOf(`
      const r = await http.get("https://a.example/x", { redirect: "${redirect}" }).catch((error) => ({ url: error.message }));
      return [r.status ?? 0, r.redirected ?? null, r.url];`);
    await run.respond(0, 302, "", [["location", "/y"]]);
    if (redirect === "follow") await run.respond(1, 200);
    answers.push(JSON.parse(run.finished(0).val));
    assert.equal(run.made("httpSend").length, redirect === "follow" ? 2 : 1);
  }
  assert.deepEqual(answers, [
    [200, true, "https://a.example/y"], [302, false, "https://a.example/x"], [0, null, 'fetch: https://a.example/x redirects, and redirect is "error"'],
  ]);
});

test("a redirect to what is no URL is an error", async () => {
  const run = await bodyOf(`return http.get("https://a.example/x").catch((error) => error.message);`);
  await run.respond(0, 302, "", [["location", "http://["]]);
  assert.equal(JSON.parse(run.finished(0).val), 'fetch: https://a.example/x redirects to "http://[", which is no URL');
});

test("a redirect of a POST is an answer", async () => {
  const run = await bodyOf(`return (await http.post("https://a.example/x", { json: 1 })).status;`);
  await run.respond(0, 303, "", [["location", "/y"]]);
  assert.equal(run.finished(0).val, "303");
});

test("a request is given up when its signal says so", async () => {
  const run = await bodyOf(`
    const own = new AbortController();
    const pending = fetch("https://a.example", { signal: own.signal }).catch((error) => error.name);
    own.abort();
    return pending;`);
  assert.equal(run.finished(0).val, '"AbortError"');
});

test("a request that may have changed something is heard out, whatever its signal says", async () => {
  const run = await bodyOf(`
    const own = new AbortController();
    const pending = http.post("https://a.example", { signal: own.signal, json: 1 });
    own.abort();
    return (await pending).status;`);
  await run.respond(0, 201);
  assert.equal(run.finished(0).val, "201");
});

test("a signal's time-out is the request's, where that may have changed something", async () => {
  const run = await bodyOf(`
    const signal = AbortSignal.any([AbortSignal.timeout(50), new AbortController().signal]);
    return http.post("https://a.example", { signal, timeoutMs: 900 }).catch((error) => error.name);`);
  assert.equal(sent(run, 0).timeoutMs, 50);
  await run.elapse(0);
  assert.equal(run.finished(0), undefined, "the host tears it down and says how far it came");
});

test("AbortSignal.timeout is a timer of the attempt", async () => {
  const run = await bodyOf(`return fetch("https://a.example", { signal: AbortSignal.timeout(50) }).catch((error) => error.name);`);
  assert.deepEqual(run.made("delay")[0][1], 50);
  await run.elapse(0);
  assert.equal(run.finished(0).val, '"TimeoutError"');
});

test("delay waits for its own answer", async () => {
  const run = await bodyOf(`await delay("1.5 s"); return "waited";`);
  assert.deepEqual(run.made("delay"), [[{ operation: 0, number: 1 }, 1500]]);
  await run.elapse(0);
  assert.equal(run.finished(0).val, '"waited"');
});

test("the global fetch in a body belongs to its attempt", async () => {
  const run = await started(`({ step }) => step.run("a", async () => (await fetch("https://a.example")).status)`);
  await run.attempt(0);
  assert.deepEqual(run.made("httpSend")[0][0], { operation: 0, number: 1 });
  await run.respond(0, 204);
  assert.equal(run.finished(0).val, "204");
});

test("in workflow code fetch is refused, also while a body waits for its own request", async () => {
  const run = await started(`async ({ step, sleep }) => {
    const a = step.run("a", async () => (await fetch("https://a.example")).status);
    await sleep(5);
    try { fetch("https://b.example"); } catch (error) { return error.code; }
  }`);
  await run.attempt(0);
  await run.complete(1);
  assert.deepEqual(run.outcome, { ok: "workflows.effect_outside_step" });
  assert.equal(run.made("httpSend").length, 1);
});

test("with several attempts open, the global fetch is for safe methods only", async () => {
  const run = await started(`async ({ step }) => {
    const body = async () => {
      await fetch("https://a.example/get");
      return (() => { try { fetch("https://a.example", { method: "POST" }); } catch (error) { return error.message; } })();
    };
    return Promise.all([step.run("a", body), step.run("b", body)]);
  }`);
  await run.attempt(0);
  await run.attempt(1);
  await run.respond(1, 200);
  assert.match(JSON.parse(run.finished(1).val), /to which of 2 running steps a POST belongs: use the step's own/);
  assert.deepEqual(run.made("httpSend").map(([id]) => id.operation), [0, 1]);
});

test("a step's own fetch names its attempt, whoever's turn it is", async () => {
  const run = await started(`async ({ step }) => {
    let open;
    const gate = new Promise((resolve) => (open = resolve));
    const a = step.run("a", async ({ http }) => { await gate; return (await http.post("https://a.example")).status; });
    const b = step.run("b", async () => { open(); });
    return Promise.all([a, b]);
  }`);
  await run.attempt(0);
  await run.attempt(1);
  assert.deepEqual(run.made("httpSend")[0][0], { operation: 0, number: 1 });
});

test("a request that fails without anybody waiting for it is in the log", async () => {
  const run = await bodyOf(`http.get("ftp://a.example"); const late = http.get("gopher://b.example"); await delay(5); await late.catch(() => {});`);
  await run.elapse(0);
  assert.deepEqual(run.logs, ["warn: a GET request failed, and nothing awaited it: fetch: ftp: is not offered, only http: and https:"]);
});

/// Those that are sent as they were written, those that nearly are, and those that are not at all.
const URLS = [
  "https://a.example", "http://a.example/", "http://a.example?x=1", "https://a.example:8443/v1/x.json?a=b&c=%20d#top", "http://127.0.0.1:8080/run/5", "http://127.0.0.1?x",
  "http://a-b.c.example/~u/-/x_y.z//w/?q=a+b:1@2", "http://a.example:80/x", "https://a.example:443", "https://a.example:80", "http://a.example:0080/", "http://a.example:65535/",
  "http://1.2.3/", "http://127.0.0.1./x", "http://01.2.3.4/", "http://1.1.1.1.a/", "http://0x7f.1/", "http://a.9a/", "http://9a/", "HTTP://A.example/x", "http://a.example/a/../b", "http://a.example/./b",
  "http://a.example/a/.b", "http://a.example/%2e%2e/x", "http://a.example/a b", "http://a.example/?x='1'", "http://u:p@a.example/", "http://ä.example/ö?ü", "http://[::1]:80/", " http://a.example/x ",
];
const NONE = ["http://256.1.1.1/", "http://1.1.1.1.1/", "http://a.0x1g.1/", "http://a.example:65536/", "http://a.example:99999/", "http://", "//a.example", "a.example/x"];

test("a URL is sent as the parser has it, however it was looked at", async () => {
  const run = await bodyOf(`
    const urls = ${JSON.stringify(URLS)};
    for (const url of urls) { http.get(url); fetch(url); }
    const none = await Promise.all(${JSON.stringify(NONE)}.map((url) => http.get(url).catch((error) => [error.code, URL.canParse(url)])));
    return { texts: urls.map((url) => new URL(url).href.replace(/#.*/, "")), none };`);
  const { texts, none } = JSON.parse(run.finished(0).val);
  assert.deepEqual(run.made("httpSend").map(([, { url }]) => url), texts.flatMap((text) => [text, text]));
  assert.deepEqual(none, NONE.map(() => ["ERR_INVALID_URL", false]));
});

test("the headers of a response are one object, and one's own to change", async () => {
  const run = await bodyOf(`
    const r = await http.get("https://a.example");
    const copy = r.clone();
    const same = r.headers === r.headers;
    r.headers.append("X-A", "3");
    return [same, r.headers.get("x-a"), [...copy.headers], copy.headers === r.headers, Object.keys(r), copy.url, copy.ok];`);
  await run.respond(0, 200, "", [["X-A", "1"], ["Date", "now"], ["x-a", "2"]]);
  const fields = ["status", "statusText", "headers", "ok", "url", "redirected", "recorded", "type"];
  assert.deepEqual(JSON.parse(run.finished(0).val), [true, "1, 2, 3", [["date", "now"], ["x-a", "1, 2"]], false, fields, "https://a.example/", true]);
});

test("what is given to a request is read when it is made", async () => {
  const run = await bodyOf(`
    const headers = new Headers({ b: "1", a: "2", authorization: "t" });
    const url = new URL("https://a.example/x");
    const pending = [http.get(url, { headers }), fetch(url, { headers })];
    headers.set("b", "9"); headers.append("c", "9"); url.pathname = "/y";
    return (await Promise.all(pending)).map((r) => r.url);`);
  for (const exchange of [0, 1]) await run.respond(exchange, 302, "", [["location", "https://b.example/"]]);
  assert.deepEqual(run.made("httpSend").map(([, { url, headers }]) => [url, headers.map(([name, value]) => name + value)]), [
    ...Array(2).fill(["https://a.example/x", ["a2", "authorizationt", "b1"]]), ...Array(2).fill(["https://b.example/", ["a2", "b1"]]),
  ]);
  for (const exchange of [2, 3]) await run.respond(exchange, 200);
  assert.deepEqual(JSON.parse(run.finished(0).val), ["https://b.example/", "https://b.example/"]);
});

test("a request that was given up follows no redirect", async () => {
  const run = await bodyOf(`
    const own = new AbortController();
    const pending = http.get("https://a.example", { signal: own.signal });
    await delay(5);
    own.abort(new Error("mine"));
    const told = await pending.catch((error) => error.message);
    await delay(5);
    return told;`);
  await run.elapse(1);
  await run.respond(0, 302, "", [["location", "/y"]]);
  await run.elapse(2);
  assert.equal(run.finished(0).val, '"mine"');
  assert.equal(run.made("httpSend").length, 1);
});

test("a failure that comes while nobody waits is told, unless somebody does before the end", async () => {
  const run = await bodyOf(`http.get("https://a.example"); const late = http.post("https://b.example"); await delay(5); await late.ensureOk().catch(() => {});`);
  await run.breakOff(0, { code: "workflows.connect_failed", message: "refused" });
  await run.breakOff(1, { code: "workflows.connect_failed", message: "refused" });
  await run.elapse(2);
  assert.deepEqual(run.logs, ["warn: a GET request failed, and nothing awaited it: refused"]);
});

const WRONG = [
  [`http.post(12)`, /http, POST, url: expected a string, got 12/],
  [`http.post("no url")`, /Invalid URL: no url/],
  [`http.get("ftp://a.example")`, /ftp: is not offered/],
  [`http.post("https://a.example", { jsn: 1 })`, /unknown field "jsn"; known are headers, json/],
  [`http.post("https://a.example", { json: 1n })`, /cannot be written as JSON/],
  [`http.post("https://a.example", { json: 1, body: "x" })`, /json or body, not both/],
  [`http.get("https://a.example", { timeoutMs: "5" })`, /timeoutMs: expected a whole number/],
  [`http.get("https://a.example", { key: "mine" })`, /key: expected "effect"/],
  [`http.get("https://a.example", { renewOn: ["500"] })`, /renewOn: expected an array of statuses/],
  [`http.get("https://a.example", { headers: { "a b": "c" } })`, /is no header name/],
  [`http.get("https://a.example", { headers: { a: "b\\nc" } })`, /line break/],
  [`http.get("https://a.example", { body: "x" })`, /GET request has no body/],
  [`http.post("https://a.example", { body: { a: 1 } })`, /a body must be/],
  [`http.request(5, "https://a.example")`, /method: expected a string/],
  [`delay("soon")`, /delay: expected a duration/],
];

test("a request of the wrong form is refused with a clear text, and nothing is sent", async (t) => {
  for (const [source, text] of WRONG) {
    await t.test(source, async () => {
      const run = await bodyOf(`await ${source};`);
      assert.match(failure(run).message, text);
      assert.deepEqual(run.made("httpSend"), []);
    });
  }
});
