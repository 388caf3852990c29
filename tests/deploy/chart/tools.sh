#!/usr/bin/env bash
# Installs the tools of the chart test, once: helm, kubeconform, actionlint, kubectl, etcd and kube-apiserver from Go
# modules, schemas from PyPI, and the custom resource definitions from the modules of their operators.
#
#   tools.sh           all of them
#   tools.sh helm      only helm
#
# Prints the folder, which is below DUPGATE_DEPLOY_TOOLS (by default target/deploy).
set -euo pipefail
cd "$(dirname "$0")"

HELM=v3.22.0
KUBECONFORM=v0.8.0
ACTIONLINT=v1.7.12
KUBERNETES=1.36.3 # as in cluster/go.mod
# Kubernetes versions to check manifests against: the oldest that Chart.yaml allows, and the newest with a schema.
SCHEMAS=(1.27.0 1.37.0)
CRDS=(
	github.com/prometheus-operator/prometheus-operator@v0.94.0/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml
	github.com/prometheus-operator/prometheus-operator@v0.94.0/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml
	github.com/kedacore/keda/v2@v2.21.0/config/crd/bases/keda.sh_scaledobjects.yaml
	sigs.k8s.io/gateway-api@v1.4.1/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
)

tools="${DUPGATE_DEPLOY_TOOLS:-../../../target/deploy}/chart"
mkdir -p "$tools/bin"
tools="$(cd "$tools" && pwd)"

say() { echo "tools: $*" >&2; }
need() { command -v "$1" >/dev/null || { say "$1 is missing: $2"; exit 1; }; }
# once NAME COMMAND...: runs a command unless it has already completed before.
once() {
	local stamp="$tools/$1.done"
	[ -e "$stamp" ] && return
	say "installing $1"
	"${@:2}" >&2
	touch "$stamp"
}

from_go() { GOBIN="$tools/bin" go install -trimpath -ldflags "-s -w" "$1"; }

cluster() {
	local version="k8s.io/component-base/version"
	local flags="-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES")"
	cd cluster
	go build -trimpath -ldflags "$flags" -o "$tools/bin/etcd" go.etcd.io/etcd/server/v3
	go build -trimpath -ldflags "$flags" -o "$tools/bin/kubectl" k8s.io/kubernetes/cmd/kubectl
	go build -trimpath -ldflags "$flags" -o "$tools/bin/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
}

python() {
	python3 -m venv --clear "$tools/python"
	"$tools/python/bin/pip" --quiet --disable-pip-version-check install -r requirements.txt
}

crds() {
	mkdir -p "$tools/crds"
	local crd module folder
	for crd in "${CRDS[@]}"; do
		module="$(sed -E 's|^([^@]*@[^/]*)/.*|\1|' <<<"$crd")"
		folder="$(cd / && go mod download -json "$module" | tee "$tools/download.json" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" ||
			{ cat "$tools/download.json"; return 1; }
		install -m 0644 "$folder/${crd#"$module/"}" "$tools/crds/"
	done
}

schemas() {
	rm -rf "$tools/schemas"
	"$tools/python/bin/python" kubernetes_schemas.py "$tools/schemas" "${SCHEMAS[@]}"
	"$tools/python/bin/python" crd_schemas.py "$tools/schemas/crds" "$tools"/crds/*.yaml
}

of() { cat "$@" | sha256sum | cut -c 1-12; }

case ${1:-} in
	helm | "") ;;
	*)
		say "there is no tool $1"
		exit 2
		;;
esac

need go "Go 1.26 or newer, https://go.dev/dl"
once "helm-$HELM" from_go "helm.sh/helm/v3/cmd/helm@$HELM"
if [ "${1:-}" = helm ]; then
	echo "$tools"
	exit
fi

need python3 "Python 3.10 or newer, with venv"
need openssl "apt-get install openssl"

once "kubeconform-$KUBECONFORM" from_go "github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM"
once "actionlint-$ACTIONLINT" from_go "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT"
once "python-$(of requirements.txt)" python
once "crds-$(of <<<"${CRDS[*]}")" crds
once "schemas-$(of requirements.txt kubernetes_schemas.py crd_schemas.py - <<<"${CRDS[*]} ${SCHEMAS[*]}")" schemas
once "cluster-$(of cluster/go.mod cluster/go.sum)" cluster
echo "$tools"
