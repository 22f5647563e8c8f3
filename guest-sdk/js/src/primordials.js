// The language's own functions as they were when the SDK was loaded, which is before any of the author's code: whatever that
// makes of `Array.prototype.map`, `JSON.stringify` or `Promise.prototype.then`, the SDK goes on as before.
//
// - A method is called by a symbol under which it was kept: `list[$.map](f)` is `list.map(f)` as it was.
// - `JSON`, `Object`, `Map` and the like are imported from here under their own names; a file that means the global ones, for
//   values that it gives to the author, does not import them.
// - What syntax does by itself (iterating an array, spreading it, awaiting a promise) is left to the engine.

const { defineProperty, freeze, getOwnPropertyDescriptors, setPrototypeOf } = globalThis.Object;
const { exec } = globalThis.RegExp.prototype;
const { apply } = globalThis.Reflect;
const NativeString = globalThis.String;
const NativeNumber = globalThis.Number;
const NativeDate = globalThis.Date;
const { getTime } = NativeDate.prototype;
const functionToString = globalThis.Function.prototype.toString;
const objectToString = globalThis.Object.prototype.toString;
const typedArray = globalThis.Object.getPrototypeOf(globalThis.Uint8Array.prototype);

const withResolvers = globalThis.Promise.withResolvers ?? function () {
  const made = { promise: null, resolve: null, reject: null };
  made.promise = new this((resolve, reject) => {
    made.resolve = resolve;
    made.reject = reject;
  });
  return made;
};

/// Methods by the prototype that has them.
const METHODS = [
  [globalThis.Array.prototype, "at every fill filter find findIndex flat flatMap forEach includes indexOf join map pop push reduce reduceRight shift slice some sort splice with"],
  [globalThis.String.prototype, "at charCodeAt codePointAt endsWith includes indexOf lastIndexOf normalize padStart replaceAll slice split startsWith toLowerCase toUpperCase toWellFormed trim trimEnd"],
  [typedArray, "copyWithin every forEach map reduce set slice"],
  [globalThis.Uint8Array.prototype, "toBase64"],
  [globalThis.ArrayBuffer.prototype, "slice"],
  [globalThis.Number.prototype, "toString"],
  [globalThis.BigInt.prototype, "toString"],
  [globalThis.Symbol.prototype, "toString"],
  [globalThis.Date.prototype, "getTime toISOString toString"],
  [globalThis.Promise.prototype, "then"],
  [globalThis.Function.prototype, "apply bind call"],
];

/// The symbols, by name.
export const $ = { __proto__: null };

function keep(prototype, name, value) {
  $[name] ??= globalThis.Symbol(`stepwell.${name}`);
  defineProperty(prototype, $[name], { value, writable: false, enumerable: false, configurable: false });
}

for (const [prototype, names] of METHODS) for (const name of names.split(" ")) keep(prototype, name, prototype[name]);

// The engine's own `test` and `replace` look `exec` up on the expression: these do not.
keep(globalThis.RegExp.prototype, "exec", exec);
keep(globalThis.RegExp.prototype, "test", {
  test(text) {
    return apply(exec, this, [text]) !== null;
  },
}.test);
keep(globalThis.String.prototype, "replace", {
  /// `pattern` is an expression; where it has the flag g all that it finds is replaced. `by` is a text, taken as it is, or a function.
  replace(pattern, by) {
    const text = `${this}`;
    let out = "";
    let done = 0;
    pattern.lastIndex = 0;
    for (let found = apply(exec, pattern, [text]); found !== null; found = apply(exec, pattern, [text])) {
      out += text[$.slice](done, found.index) + (typeof by === "string" ? by : apply(by, undefined, found));
      done = found.index + found[0].length;
      if (!isGlobal(pattern)) break;
      if (found[0] === "") pattern.lastIndex++;
    }
    pattern.lastIndex = 0;
    return out + text[$.slice](done);
  },
}.replace);
keep(globalThis.Promise.prototype, "catch", {
  catch(rejected) {
    return this[$.then](undefined, rejected);
  },
}.catch);
freeze($);

const globalFlag = globalThis.Object.getOwnPropertyDescriptor(globalThis.RegExp.prototype, "global").get;

function isGlobal(pattern) {
  return apply(globalFlag, pattern, []);
}

/// A copy of an object's own functions and constants.
function copy(source, target = { __proto__: null }) {
  for (const [name, descriptor] of globalThis.Object.entries(getOwnPropertyDescriptors(source))) {
    if (!["prototype", "length", "name"].includes(name) && "value" in descriptor) defineProperty(target, name, descriptor);
  }
  return freeze(target);
}

/// A class like `Type` whose methods are its own.
function safe(Type) {
  const Safe = class extends Type {};
  for (const key of globalThis.Reflect.ownKeys(Type.prototype)) {
    if (key !== "constructor") defineProperty(Safe.prototype, key, globalThis.Object.getOwnPropertyDescriptor(Type.prototype, key));
  }
  setPrototypeOf(Safe.prototype, null);
  freeze(Safe.prototype);
  return Safe;
}

export const JSON = copy(globalThis.JSON);
export const Math = copy(globalThis.Math);
export const Object = copy(globalThis.Object);
export const Array = copy(globalThis.Array);
export const Reflect = copy(globalThis.Reflect);
export const String = copy(NativeString, (value) => NativeString(value));
export const Number = copy(NativeNumber, (value) => NativeNumber(value));
export const Promise = globalThis.Promise;
export const nativeRace = Promise.race;
/// `{ promise, resolve, reject }` of a class of promises. The engine's own makes it without a function of ours.
export const deferred = (Type) => apply(withResolvers, Type, []);
export const { Map: NativeMap, Set: NativeSet } = globalThis;
export const Map = safe(NativeMap);
export const Set = safe(NativeSet);
export const WeakMap = safe(globalThis.WeakMap);
export const { DOMException } = globalThis;
export const { isView } = globalThis.ArrayBuffer;
export const { parse: parseDate, UTC: utc } = NativeDate;
/// The way from texts to bytes and back that needs no loop in this language. Not every engine has all of it.
export const { atob, btoa, decodeURIComponent, encodeURIComponent, escape, unescape } = globalThis;
export const { fromBase64 } = globalThis.Uint8Array;

export const objectPrototype = globalThis.Object.prototype;
export const arrayPrototype = globalThis.Array.prototype;

/// Ms since the Unix epoch of a `Date`; throws for anything else.
export const timeOf = (value) => apply(getTime, value, []);
/// A promise that has its own `then` and `catch`, for who asks it for them by name.
export function withOwnThen(promise) {
  defineProperty(promise, "then", { value: promise[$.then] });
  return defineProperty(promise, "catch", { value: promise[$.catch] });
}

/// `[object Something]` of a value.
export const tagOf = (value) => apply(objectToString, value, []);
/// The source of a function.
export const sourceOf = (value) => apply(functionToString, value, []);
