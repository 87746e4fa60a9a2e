#!/bin/sh
# Pays once, whatever becomes of connections: pay.sh URL KEY PAYMENT ANSWER
url=$1 key=$2 payment=$3 answer=$4

pay() {
    curl --silent --show-error --retry 8 --retry-all-errors --retry-max-time 60 --max-time 30 \
        --header "Idempotency-Key: \"$key\"" --header 'Content-Type: application/json' \
        --data-binary "$payment" --output "$answer" \
        --write-out '%{http_code} %{size_download}\n' "$url"
}

for tried in 1 2 3; do
    came=$(pay)
    # curl takes a head that is cut for a whole one, and what follows for an empty body.
    case $came in *\ 0) ;; *) break ;; esac
done
echo "${came% *}"
