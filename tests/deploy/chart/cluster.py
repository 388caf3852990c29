"""A Kubernetes API server with etcd on loopback. It validates and stores objects; no scheduler or kubelet runs."""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: {authority}}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
"""
PR_SET_PDEATHSIG = 1


def free_ports(number):
    """Returns free ports."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Cluster:
    """Starts on entry, stops on exit. `folder` holds data, logs and the kubeconfig."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.processes = Path(binaries), Path(folder), []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        client, peer, port = free_ports(3)
        token = secrets.token_hex(16)
        key, public, tokens = (self.folder / name for name in ("account.key", "account.pub", "tokens.csv"))
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        tokens.write_text(f"{token},admin,admin,system:masters\n")
        etcd, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        certificates = self.folder / "certificates"
        self.spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={certificates}",
            "--service-account-issuer=https://test.invalid",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/24",
            # Without a controller manager, the accounts that this plugin requires do not exist.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
        )
        self.kubeconfig = self.folder / "kubeconfig"
        authority = certificates / "apiserver.crt"
        self.kubeconfig.write_text(KUBECONFIG.format(port=port, token=token, authority=authority))
        self.wait(
            "the API server to be ready", lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0
        )

    def spawn(self, name, *arguments):
        log = (self.folder / f"{name}.log").open("w")
        process = subprocess.Popen(
            [self.binaries / name, *arguments], stdout=log, stderr=log, preexec_fn=die_with_parent
        )
        self.processes.append((name, process))

    def stop(self):
        for _, process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self, what, condition, seconds=300):
        end = time.monotonic() + seconds
        while not condition():
            for name, process in self.processes:
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text()[-3000:]
                    raise RuntimeError(f"{name} ended while waiting for {what}:\n{log}")
            if time.monotonic() > end:
                raise RuntimeError(f"waited {seconds} s for {what}")
            time.sleep(0.2)

    def environment(self):
        home = {"HOME": str(self.folder), "HELM_CACHE_HOME": str(self.folder), "HELM_CONFIG_HOME": str(self.folder)}
        return {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.kubeconfig), **home}

    def kubectl(self, *arguments, text=None, check=True):
        done = subprocess.run(
            [self.binaries / "kubectl", *arguments],
            input=text,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done
