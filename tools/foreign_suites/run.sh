#!/bin/bash
# Runs the test suites of other clients against the embedded server (docs/reference/foreign-suites.md).
#
#     tools/foreign_suites/run.sh FOLDER [SUITE...]
#
# Clones, an environment and the results (SUITE.txt) go to FOLDER; a clone that is there is used as it is.
# The suites: kr8s lightkube kubernetes_asyncio kubernetes kopf. kubectl and bash have to be there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && folder=$(cd "$1" && pwd) && shift
suites=${*:-kr8s lightkube kubernetes_asyncio kubernetes kopf}
python=$folder/venv/bin/python
reconcile=${RECONCILE:-reconcile}
export KUBECONFIG=$folder/kubeconfig

clone() { # NAME REPOSITORY COMMIT
    [ -d "$folder/$1" ] && return
    git clone -q "https://github.com/$2" "$folder/$1" && git -C "$folder/$1" checkout -q "$3"
}

if [ ! -x "$python" ]; then
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q kr8s==0.20.15 lightkube==1.0.1 kubernetes==37.0.2 kubernetes_asyncio==36.1.0 \
        kopf==1.44.6 pytest pytest-asyncio pytest-mock pytest-timeout aresponses astpath certbuilder certvalidator \
        freezegun kubernetes-validate looptime lxml pykube-ng trio
fi

suite_kr8s() {
    clone kr8s kr8s-org/kr8s 418ce61c
    echo '__version__ = "0.20.15"' > "$folder/kr8s/kr8s/_version.py"
    cd "$folder/kr8s" && PYTHONPATH=$here test_it -o addopts= --timeout 40 kr8s
}

suite_lightkube() {
    clone lightkube gtsystem/lightkube 2f41260d
    cd "$folder/lightkube/e2e-tests" && test_it -o asyncio_mode=auto --timeout 40 .
}

suite_kubernetes_asyncio() {
    clone kubernetes_asyncio tomplus/kubernetes_asyncio cb0b819d
    cd "$folder/kubernetes_asyncio" && test_it --timeout 60 kubernetes_asyncio/e2e_test kubernetes_asyncio/dynamic
}

suite_kubernetes() { # its tests beside the released client, which comes without them
    clone kubernetes kubernetes-client/python 02465849
    cp -rn "$folder"/venv/lib/python3*/site-packages/kubernetes/. "$folder/kubernetes/kubernetes/" 2> /dev/null
    cd "$folder/kubernetes" && test_it --timeout 60 kubernetes/e2e_test kubernetes/base/dynamic
}

suite_kopf() {
    clone kopf nolar/kopf 60d02aef
    cp "$folder"/venv/lib/python3*/site-packages/kopf/_cogs/helpers/versions.py "$folder/kopf/kopf/_cogs/helpers/"
    cd "$folder/kopf" || return
    kubectl apply -f peering.yaml -f examples/crd.yaml; kubectl apply -f peering.yaml # its objects need its definitions
    test_it --only-e2e --no-looptime --timeout 120 tests/e2e
}

test_it() {
    timeout 1200 "$python" -m pytest -q -p no:cacheprovider "$@"
}

for suite in $suites; do
    mkfifo "$folder/input"
    "$reconcile" apiserver --json --until-eof --nodes 2 --workloads --kubeconfig-out "$KUBECONFIG" \
        < "$folder/input" > "$folder/ready" &
    exec 3> "$folder/input"
    rm "$folder/input"
    until grep -q url "$folder/ready"; do sleep 0.2; done
    kubectl -n kube-system run metrics-server --image=none > /dev/null # some suites look for pods there
    "suite_$suite" > "$folder/$suite.txt" 2>&1 3>&-
    echo "$suite: $(tail -1 "$folder/$suite.txt")"
    exec 3>&-
    wait
done
