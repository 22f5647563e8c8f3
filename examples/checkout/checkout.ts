// An order from reservation to e-mail. Each step's result is recorded, so that a crash between any two lines goes on from there,
// and each request carries a key, so that a lost answer does not charge anybody twice.
import { workflow, type Context } from "stepwell";

interface Order {
  orderId: string;
  /** Where the shop answers, e.g. `http://127.0.0.1:4810`. */
  shop: string;
  items: { sku: string; quantity: number }[];
  amountCents: number;
  currency: string;
  customer: { name: string; email: string; address: string };
}

// The shop deduplicates by key, so a request whose answer was lost may be sent again under the same one.
const keyed = { effect: "keyed" } as const;

export const checkout = workflow("checkout", async ({ input: order, step, sleep }: Context<Order>) => {
  const { orderId, shop, items, amountCents, currency, customer } = order;

  const reservation = await step.run("reserve", async ({ http }) =>
    (await http.post(`${shop}/reservations`, { json: { orderId, items } }).ensureOk()).json(), keyed);

  const [charge, label] = await Promise.all([
    step.run("charge", async ({ http }) =>
      (await http.post(`${shop}/charges`, { json: { orderId, amountCents, currency } }).ensureOk()).json(),
      { ...keyed, retry: { maxAttempts: 10 } }),
    step.run("label", async ({ http }) =>
      (await http.post(`${shop}/labels`, { json: { orderId, name: customer.name, address: customer.address } }).ensureOk()).json(), keyed),
  ]);

  await sleep("2 seconds"); // days, in a real shop: a sleeping run costs a row

  const email = await step.run("email", async ({ http }) =>
    (await http.post(`${shop}/emails`, { json: { orderId, to: customer.email, about: [charge.id, label.id] } }).ensureOk()).json(), keyed);

  return { orderId, reservation: reservation.id, charge: charge.id, label: label.id, email: email.id };
}, { timeoutMs: 10_000, destinations: ["127.0.0.1:*"] });
