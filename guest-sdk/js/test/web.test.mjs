// The web globals that the engine lacks, compared with those of the machine that runs the tests, and by known answers.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import test from "node:test";

import { host, started } from "./support/host.mjs";

const { globals } = await host("");

const URLS = [
  ["https://user:pa%20ss@EXAMPLE.com:8080/a/./b/../c%2e/%2e%2e/d?x=1&y='é#frag ment"], ["http://a.example"], ["http://a.example:80/"], ["https://a.example:443?q"],
  ["HTTP:\\\\a.example\\b\\c?d\\e"], ["  https://a.example/\tx\ny  "], ["https://a.example/ä/日本"], ["https://münchen.example/"], ["https://日本語.jp/"],
  ["https://faß.example/"], ["http://0x7f.1/"], ["http://192.168.257/"], ["http://256.256.256.256/"], ["http://1.2.3.4.5/"], ["http://[::1]:3000/x"],
  ["http://[2001:DB8:0:0:1:0:0:1]/"], ["http://[::ffff:1.2.3.4]/"], ["http://[1::2::3]/"], ["http://[::1"], ["http://a b/"], ["http://a.example:99999/"], ["http://a.example:x/"],
  ["http://"], ["http:///a.example/x"], ["https:a.example"], ["//a.example/x"], ["a/b"], [""], ["mailto:a@b.example"], ["data:text/plain,hi there#x"],
  ["file:///etc/../x"], ["foo://Bar:1/a/../b?c"], ["foo:/a/b"], ["javascript:alert(1)"], ["http://%41.example/"], ["http://a.example/%zz"], ["http://a.example/?a=%zz&b=\"<>`"],
  ["http://a.example/{}|`"], ["http://user@:80/"], ["http://:80/"], ["http://a.example/#"], ["http://a.example/?"], ["http://a.example?#"], ["https://a.example/a//b///"],
  ["b", "https://a.example/x/y?z#w"], ["../b", "https://a.example/x/y/z"], ["/b", "https://a.example/x"], ["//c.example/d", "https://a.example/x"], ["?q", "https://a.example/x/y?z"],
  ["#f", "https://a.example/x?y"], ["", "https://a.example/x?y#z"], ["./", "https://a.example/x/y"], ["..", "https://a.example/x/y"], ["../../../..", "https://a.example/x/y"],
  ["https:b", "https://a.example/x/y"], ["http:b", "https://a.example/x/y"], ["\\b", "https://a.example/x"], ["x", "mailto:a@b.example"], ["#f", "mailto:a@b.example"], ["b?c/../d", "http://a.example/x/y"],
  [".", "http://a.example"], ["b", "foo://h/a/c"], ["http://a.example/..%2f"], ["http://a.example/%2E%2e/b"], ["HTTPS://A.EXAMPLE./"], ["http://ex%2fample/"], ["http://a.example/\ud800"],
  ["http://-a-.example"], ["http://a_b.example/"], ["http://xn--mnchen-3ya.example/"], ["ws://a.example:80/x"], ["http://a.example:00080/"], ["http://a.example:0/"], ["http://0/"], ["http://1e3.example/"],
];
const PARTS = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

test("URL parses as the standard says", async (t) => {
  for (const [input, base] of URLS) {
    await t.test(JSON.stringify([input, base]), () => {
      assert.equal(globals.URL.canParse(input, base), URL.canParse(input, base));
      if (!URL.canParse(input, base)) return assert.throws(() => new globals.URL(input, base), { name: "TypeError" });
      const [ours, theirs] = [new globals.URL(input, base), new URL(input, base)];
      for (const part of PARTS) assert.equal(ours[part], theirs[part], part);
      assert.equal(new globals.URL(ours.href).href, ours.href);
    });
  }
});

const SETTERS = [
  ["protocol", "http"], ["protocol", "foo"], ["protocol", "ws:"], ["username", "a b"], ["password", "p:w"], ["host", "b.example:81"], ["host", "b.example"], ["hostname", "c.example"], ["hostname", "a b"],
  ["port", "443"], ["port", "8080"], ["port", ""], ["port", "x"], ["port", "99999"], ["pathname", "x/y z?#"], ["pathname", ""], ["search", "a=b c"], ["search", ""], ["search", "?x"], ["hash", "h i"], ["hash", ""], ["href", "http://z.example/"],
];

test("URL's parts can be set", async (t) => {
  for (const [part, value] of SETTERS) {
    await t.test(`${part} = ${JSON.stringify(value)}`, () => {
      const source = "https://u:p@a.example:8443/x/y?q=1#f";
      const [ours, theirs] = [new globals.URL(source), new URL(source)];
      ours[part] = theirs[part] = value;
      assert.equal(ours.href, theirs.href);
    });
  }
});

test("URLSearchParams", () => {
  for (const source of ["", "?a=1&b=2&a=3", "a=%20+b&c", "=x&&y=", "a=é&b=%C3%A9&c=%ff", "x=1=2"]) {
    const [ours, theirs] = [new globals.URLSearchParams(source), new URLSearchParams(source)];
    assert.equal(ours.toString(), theirs.toString());
    assert.deepEqual([...ours].map((pair) => [...pair]), [...theirs]);
    for (const params of [ours, theirs]) {
      params.append("a b", "c&d=*-._~!'()");
      params.set("a", "new");
      params.delete("b");
      params.sort();
    }
    assert.equal(ours.toString(), theirs.toString());
    assert.equal(ours.size, theirs.size);
    assert.deepEqual([ours.get("a"), ours.get("none"), ours.has("a", "new"), [...ours.getAll("a")]], [theirs.get("a"), null, true, theirs.getAll("a")]);
  }
  assert.equal(new globals.URLSearchParams({ a: 1, b: "x y" }).toString(), "a=1&b=x+y");
  assert.equal(new globals.URLSearchParams([["a", 1]]).toString(), "a=1");
  const url = new globals.URL("https://a.example/?x=1");
  url.searchParams.append("y", "é");
  assert.equal(url.href, "https://a.example/?x=1&y=%C3%A9");
  url.search = "?z=2";
  assert.equal(url.searchParams.get("z"), "2");
});

test("TextEncoder and TextDecoder", () => {
  const { TextEncoder: Encoder, TextDecoder: Decoder } = globals;
  for (const text of ["", "abc", "é€😀\0", "\ud800x\udc00", "\ufeffbom", "x".repeat(10_000) + "😀"]) {
    assert.deepEqual([...new Encoder().encode(text)], [...new TextEncoder().encode(text)]);
    assert.equal(new Decoder().decode(new TextEncoder().encode(text)), new TextDecoder().decode(new TextEncoder().encode(text)));
  }
  const BROKEN = [[0xff], [0xc3], [0xe2, 0x82], [0xe2, 0x28, 0xa1], [0xed, 0xa0, 0x80], [0xf0, 0x80, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xc0, 0xaf], [0xf0, 0x9f, 0x98], [0x61, 0xf0, 0x9f, 0x98, 0x62], [0x80, 0x80]];
  for (const bytes of BROKEN) {
    assert.equal(new Decoder().decode(Uint8Array.from(bytes)), new TextDecoder().decode(Uint8Array.from(bytes)), String(bytes));
    assert.throws(() => new Decoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes)), { name: "TypeError" });
  }
  const decoder = new Decoder();
  const parts = [[0xef, 0xbb], [0xbf, 0xf0, 0x9f], [0x98, 0x80], [0xe2]].map((bytes) => decoder.decode(Uint8Array.from(bytes), { stream: true }));
  assert.equal(parts.join("") + decoder.decode(), "😀\ufffd");
  assert.equal(new Decoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.of(0xef, 0xbb, 0xbf)), "\ufeff");
  assert.throws(() => new Decoder("utf-16"), { name: "RangeError" });
});

test("digests and HMAC", async () => {
  const { subtle } = globals.crypto;
  for (const length of [0, 1, 55, 56, 63, 64, 111, 112, 127, 128, 1000]) {
    const data = Uint8Array.from({ length }, (_, index) => index * 7);
    for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
      assert.deepEqual(Buffer.from(await subtle.digest(hash, data)), Buffer.from(await webcrypto.subtle.digest(hash, data)), `${hash} of ${length}`);
    }
  }
  for (const length of [3, 64, 200]) {
    const [raw, data, algorithm] = [new Uint8Array(length).fill(5), new TextEncoder().encode("message"), { name: "HMAC", hash: "SHA-256" }];
    const ours = await subtle.importKey("raw", raw, algorithm, false, ["sign", "verify"]);
    const theirs = await webcrypto.subtle.importKey("raw", raw, algorithm, false, ["sign"]);
    const signature = await subtle.sign("HMAC", ours, data);
    assert.deepEqual(Buffer.from(signature), Buffer.from(await webcrypto.subtle.sign("HMAC", theirs, data)));
    assert.equal(await subtle.verify("HMAC", ours, signature, data), true);
    assert.equal(await subtle.verify("HMAC", ours, signature, raw), false);
  }
  await assert.rejects(subtle.digest("MD5", new Uint8Array(1)), { name: "NotSupportedError" });
});

test("structuredClone", async () => {
  const run = await started(`() => {
    const source = { date: new Date(5), map: new Map([[1, { a: 1 }]]), set: new Set(["x"]), bytes: new Uint8Array([1, 2]), re: /a/gi, n: undefined, nested: [1, [2]], error: new TypeError("bad", { cause: 1 }) };
    source.self = source;
    const copy = structuredClone(source);
    const refused = [() => 1, { a: Symbol() }, Promise.resolve()].map((value) => { try { structuredClone(value); } catch (error) { return error.name; } });
    return [copy !== source, copy.self === copy, copy.date.getTime(), copy.map.get(1), [...copy.set], [...copy.bytes], copy.bytes.buffer !== source.bytes.buffer, String(copy.re), "n" in copy, copy.nested,
      copy.error instanceof TypeError, copy.error.message, copy.error.cause, refused];
  }`);
  assert.deepEqual(run.outcome.ok, [true, true, 5, { a: 1 }, ["x"], [1, 2], true, "/a/gi", true, [1, [2]], true, "bad", 1, Array(3).fill("DataCloneError")]);
});

test("signals and events", async () => {
  const run = await started(`() => {
    const heard = [];
    const controller = new AbortController();
    const { signal } = controller;
    signal.onabort = () => heard.push("onabort");
    signal.addEventListener("abort", { handleEvent: (event) => heard.push(event.type, event.target === signal) });
    signal.addEventListener("abort", () => { throw new Error("listener"); }, { once: true });
    const any = AbortSignal.any([new AbortController().signal, signal]);
    controller.abort("why");
    controller.abort("again");
    const target = new EventTarget();
    const once = () => heard.push("once");
    target.addEventListener("x", once, { once: true });
    target.addEventListener("x", once);
    target.dispatchEvent(new Event("x"));
    target.dispatchEvent(new CustomEvent("x", { detail: 1 }));
    let thrown;
    try { signal.throwIfAborted(); } catch (error) { thrown = error; }
    return [heard, signal.aborted, signal.reason, any.aborted, any.reason, thrown, AbortSignal.abort().reason.name, new AbortController().signal.aborted];
  }`);
  assert.deepEqual(run.outcome.ok, [["onabort", "abort", true, "once"], true, "why", true, "why", "why", "AbortError", false]);
  assert.match(run.logs[0], /^error: Error: listener/);
});

test("Headers, Request, Response", async () => {
  const { Headers, Request, Response } = globals;
  const headers = new Headers({ B: "2", a: " 1 " });
  headers.append("b", "3");
  headers.append("Set-Cookie", "x");
  headers.append("set-cookie", "y");
  assert.deepEqual([...headers].map((pair) => [...pair]), [["a", "1"], ["b", "2, 3"], ["set-cookie", "x"], ["set-cookie", "y"]]);
  headers.set("B", "4");
  headers.delete("A");
  assert.deepEqual([headers.get("b"), headers.has("a"), [...headers.getSetCookie()]], ["4", false, ["x", "y"]]);
  const request = new Request("https://a.example/#x", { method: "post", body: new globals.URLSearchParams({ a: "b c" }) });
  assert.deepEqual([request.method, request.url, request.headers.get("content-type"), await request.clone().text()], ["POST", "https://a.example/", "application/x-www-form-urlencoded;charset=UTF-8", "a=b+c"]);
  const response = Response.json({ a: 1 }, { status: 201 });
  assert.deepEqual([response.status, response.ok, response.headers.get("content-type"), JSON.stringify(await response.json())], [201, true, "application/json", '{"a":1}']);
  assert.deepEqual([...(await new Response(Uint8Array.of(1, 2)).bytes())], [1, 2]);
  await assert.rejects(response.text(), /read already/);
  assert.throws(() => new Response("x", { status: 204 }), /has no body/);
  assert.throws(() => new Response("x", { status: 99 }), /is no status/);
});

test("UTF-8 is the same with and without the engine's own Base64", async () => {
  const ways = [await host("", { base64: true }), await host("", { base64: false })].map(({ globals }) => globals);
  const long = "x".repeat(0x3fff);
  const texts = ["", "plain", "é", "€", "\u{1f600}", "\ud800", "a\udc00b", "\ufeffx", `${long}\u{1f600}y`, `${long}é€`, long + long + long];
  for (const text of texts) {
    const encoded = ways.map(({ TextEncoder }) => [...new TextEncoder().encode(text)]);
    assert.deepEqual(encoded[0], encoded[1]);
    assert.deepEqual(encoded[0], [...new TextEncoder().encode(text)]);
    for (const { TextDecoder } of ways) assert.equal(new TextDecoder().decode(Uint8Array.from(encoded[0])), text.toWellFormed().replace(/^\ufeff/, ""));
  }
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82], [0x61, 0xe2, 0x82, 0x62], [0xc3, 0xa9, 0x80]]) {
    const expected = new TextDecoder().decode(Uint8Array.from(bytes));
    for (const { TextDecoder } of ways) {
      assert.equal(new TextDecoder().decode(Uint8Array.from(bytes)), expected);
      assert.throws(() => new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes)), { name: "TypeError" });
    }
  }
});
