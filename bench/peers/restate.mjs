// A service behind Restate that does nothing: one fixed answer.

// The SDK needs it; Node.js has it from version 22 on.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((fulfilled, failed) => ([resolve, reject] = [fulfilled, failed]));
  return { promise, resolve, reject };
};
const { service, serve } = await import("@restatedev/restate-sdk");

const create = async () => ({ id: "1", status: "accepted" });
serve({ services: [service({ name: "payments", handlers: { create } })], port: +process.env.PORT });
