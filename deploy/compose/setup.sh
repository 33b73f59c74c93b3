#!/bin/sh
# Prepares what servers and workers need; does nothing twice. SETUP_SECRETS is a folder for it, with a folder each for
# the CA, the servers, the workers and people; SETUP_READER is the user whose the files are to be.
# Not HOLDFAST_: such a variable that is no setting is refused by the program.
set -eu
umask 077
secrets=${SETUP_SECRETS:?names the folder for certificates and tokens}

holdfast db migrate

mkdir -p "$secrets/authority" "$secrets/servers" "$secrets/workers" "$secrets/people"
authority=$secrets/authority/ca
[ -e "$authority/ca.pem" ] || holdfast ca init "$authority"
if [ ! -e "$secrets/servers/server.pem" ]; then
    [ -e "$authority/server.pem" ] ||
        holdfast ca issue "$authority" server --host server --host localhost --host 127.0.0.1 --role server
    cp "$authority/server.key" "$secrets/servers/server.key"
    cp "$authority/server.pem" "$secrets/servers/server.pem"
fi
for who in workers people; do
    cp "$authority/ca.pem" "$secrets/$who/ca.pem"
done

# A token is shown once: write it beside, so that no half file counts. A name is given once: of one whose file is lost,
# nobody has the secret, and it gets another.
make_token() {
    [ ! -e "$secrets/$2" ] || return 0
    holdfast tokens create --name "$1" --role "$3" >"$secrets/$2.new" ||
        holdfast tokens rotate "$1" >"$secrets/$2.new"
    mv "$secrets/$2.new" "$secrets/$2"
}
make_token workers workers/token worker
make_token admin people/admin.token admin

if [ -n "${SETUP_READER:-}" ]; then
    chown -R "$SETUP_READER" "$secrets/servers" "$secrets/workers" "$secrets/people"
fi
