#!/bin/sh
# Pays once, whatever becomes of connections: call.sh URL KEY PAYMENT ANSWER
url=$1 key=$2 payment=$3 answer=$4

status=$("$HAPAX" call --silent --include --output "$answer" --attempts 9 \
    --key "$key" --json "$payment" "$url" | sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p')
echo "${status:-0}"
