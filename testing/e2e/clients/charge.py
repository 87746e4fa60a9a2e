"""Charges with Stripe's SDK: charge.py BASE KEY AMOUNT [KEY AMOUNT …]

For an empty KEY the SDK makes one.
"""

import json
import sys

import stripe


def client(base):
    return stripe.StripeClient(
        "sk_test_hapax",
        base_addresses={"api": base},
        max_network_retries=3,
    )


def charge(client, key, amount):
    """Charges until there is an answer. The key is the caller's, made once and kept."""
    params = {"amount": amount, "currency": "eur", "source": "tok_visa"}
    for again in [True, True, False]:
        try:
            return client.v1.charges.create(params, {"idempotency_key": key})
        except stripe.StripeError as error:
            # The SDK does not retry an answer that is cut in its head or its body.
            if not again or (error.http_status or 0) >= 400:
                raise


def charge_with_a_key_of_the_sdk(client, amount):
    params = {"amount": amount, "currency": "eur", "source": "tok_visa"}
    return client.v1.charges.create(params)


def main(base, *pairs):
    sdk = client(base)
    for key, amount in zip(pairs[::2], pairs[1::2]):
        try:
            made = charge(sdk, key, amount) if key else charge_with_a_key_of_the_sdk(sdk, amount)
            print(json.dumps({"id": made.id}))
        except stripe.StripeError as error:
            print(json.dumps({"error": type(error).__name__, "status": error.http_status}))


if __name__ == "__main__":
    main(*sys.argv[1:])
