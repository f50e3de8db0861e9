"""tests/cli/test_deploy.py -- deploy/ says what the command understands: every flag, port, name and file.

The manifests are read strictly (a key that stands twice is an error), checked against each other and against `--help`, and
their commands are run here in place of pods."""
import json
import os
import re
import shlex
import subprocess

import yaml

from harness import HERE, Failed, check, has, wait_until

ROOT = os.path.dirname(os.path.dirname(HERE))
DEPLOY = os.path.join(ROOT, "deploy")
KUBERNETES = os.path.join(DEPLOY, "kubernetes")


class Strict(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(k, deep=deep) for k, _ in node.value]
        check(len(keys) == len(set(keys)), "a key stands twice: %s, %s" % (keys, node.start_mark))
        return super().construct_mapping(node, deep)


def read_manifests():
    """File name -> text."""
    return {n: open(os.path.join(KUBERNETES, n)).read() for n in sorted(os.listdir(KUBERNETES)) if n.endswith((".yaml", ".json"))}


def documents(texts):
    """(kind, name) -> object, of all that is applied; and the kustomization."""
    found, top = {}, None
    for name, text in texts.items():
        if not name.endswith(".yaml"):
            continue
        for d in yaml.load_all(text, Strict):
            if d["kind"] == "Kustomization":
                top = d
                continue
            check(re.fullmatch(r"v1|[a-z.]+/v\d\w*", d["apiVersion"]), d["apiVersion"])
            key = (d["kind"], d["metadata"]["name"])
            check(key not in found, "%s is there twice" % (key,))
            found[key] = d
    return found, top


def help_flags(millrace, command):
    text = subprocess.run([millrace, command, "--help"], capture_output=True, text=True, check=True).stdout
    return {m[0]: bool(m[1]) for m in re.findall(r"^  --([a-z-]+)( [A-Z]+)? ", text, re.M)}


def help_port(millrace):
    """The usual port, as `millrace serve --help` has it."""
    text = subprocess.run([millrace, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"usual\s+port is (\d+)", text).group(1))


def pod_of(d):
    return d["spec"]["template"]["spec"]


def command_of(d):
    """The words behind `millrace` up to the program, and the program's."""
    c = pod_of(d)["containers"][0]["command"]
    check(c[:2] == ["/bin/sh", "-c"] and len(c) == 3, str(c))
    words = shlex.split(c[2])
    check(words[:2] == ["exec", "millrace"], str(words))
    words = words[2:]
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1:]


def check_flags(millrace, words):
    """Every one is known, and has a value if it wants one; those given, by name."""
    flags, given, i = help_flags(millrace, words[0]), {}, 1
    while i < len(words):
        check(words[i].startswith("--"), "%s: '%s' is no option" % (words[0], words[i]))
        name, eq, value = words[i][2:].partition("=")
        check(name in flags, "millrace %s has no --%s: %s" % (words[0], name, sorted(flags)))
        if flags[name] and not eq:
            i += 1
            check(i < len(words) and not words[i].startswith("--"), "--%s has no value" % name)
            value = words[i]
        given[name] = value
        i += 1
    return given


def check_mounts(pod, found, top):
    c = pod["containers"][0]
    volumes = {v["name"]: v for v in pod["volumes"]}
    check(sorted(volumes) == sorted(m["name"] for m in c["volumeMounts"]), "volumes and mounts differ")
    maps = {g["name"]: g["files"] for g in top["configMapGenerator"]}
    secrets = {g["name"]: g["files"] for g in top["secretGenerator"]}
    check(volumes["cluster"]["configMap"]["name"] in maps, "config map")
    check(volumes["keys"]["secret"]["secretName"] in secrets, "secret")
    check(volumes["keys"]["secret"]["defaultMode"] == 0o440, "others could read keys")
    check(("PersistentVolumeClaim", volumes["checkpoints"]["persistentVolumeClaim"]["claimName"]) in found, "claim")
    return {m["name"]: m["mountPath"] for m in c["volumeMounts"]}


def check_safety(pod):
    s, c = pod["securityContext"], pod["containers"][0]["securityContext"]
    check(s["runAsNonRoot"] and s["runAsUser"] == s["fsGroup"] == 10001, "the user of the image")
    check(not c["allowPrivilegeEscalation"] and c["readOnlyRootFilesystem"] and c["capabilities"]["drop"] == ["ALL"], "rights")
    r = pod["containers"][0]["resources"]
    check(r["requests"]["cpu"] and r["requests"]["memory"] and r["limits"]["memory"], "resources")


def pod_addresses(d, name, service):
    """Under which names its pods are known."""
    if d["kind"] == "StatefulSet":
        check(d["spec"]["serviceName"] == service, "service of " + name)
        return ["%s-%d.%s" % (name, i, service) for i in range(d["spec"]["replicas"])]
    pod = pod_of(d)
    return ["%s.%s" % (pod["hostname"], pod["subdomain"])]


def check_workload(millrace, d, found, top, cluster):
    name, pod = d["metadata"]["name"], pod_of(d)
    labels = d["spec"]["template"]["metadata"]["labels"]
    job = labels["app.kubernetes.io/component"]
    if d["kind"] == "StatefulSet":
        check(d["spec"]["selector"]["matchLabels"] == labels, "selector of " + name)
    service = found[("Service", name)]["spec"]
    check(service["selector"] == labels and service["clusterIP"] == "None" and service["publishNotReadyAddresses"], "service " + name)
    port = service["ports"][0]["port"]
    check(port == help_port(millrace), "port of %s: %d" % (name, port))
    c = pod["containers"][0]
    check(c["ports"] == [{"name": "grpc", "containerPort": port}], "ports of " + name)
    for probe in ("readinessProbe", "livenessProbe"):
        check(probe not in c or c[probe]["tcpSocket"]["port"] == "grpc", probe)
    check(cluster[job] == ["%s:%d" % (a, port) for a in pod_addresses(d, name, name)], "cluster.json: %s: %s" % (job, cluster[job]))
    mounts = check_mounts(pod, found, top)
    check_safety(pod)
    words, program = command_of(d)
    given = check_flags(millrace, words)
    check(given["cluster"] == mounts["cluster"] + "/cluster.json" and given["job"] == job, str(given))
    check(given["task"] == ("0" if d["kind"] == "Job" else "${HOSTNAME##*-}"), given["task"])
    check(bool(program) == (words[0] == "launch"), "program of " + name)
    env = {e["name"]: e["value"] for e in c["env"]}
    check(env["MILLRACE_TLS_DIR"] == mounts["keys"], "keys")
    for e in env:
        has(open(os.path.join(ROOT, "docs", "cluster.md")).read(), "`%s`" % e)
    return job


def check_keys(top, cluster):
    files = {os.path.basename(f) for g in top["secretGenerator"] for f in g["files"]}
    want = {"ca.pem"} | {"%s-%d.%s" % (job, i, end) for job, a in cluster.items() for i in range(len(a)) for end in ("pem", "key")}
    check(files == want, "keys of the secret: %s" % sorted(files ^ want))


def check_manifests(millrace, texts):
    found, top = documents(texts)
    cluster = json.loads(texts["cluster.json"])["cluster"]
    check(set(top["resources"]) | {"kustomization.yaml", "cluster.json"} == set(texts), "files of the kustomization")
    jobs = [check_workload(millrace, d, found, top, cluster) for k, d in found.items() if k[0] in ("StatefulSet", "Job")]
    check(sorted(jobs) == sorted(cluster) == ["chief", "ps", "worker"], str(jobs))
    check_keys(top, cluster)


def test_deploy_manifests_fit_the_command_and_each_other(t):
    check_manifests(t.millrace, read_manifests())


def test_deploy_check_finds_what_is_wrong(t):
    """The check is worth something only if it fails."""
    check_manifests(t.millrace, read_manifests())
    plants = [("ps.yaml", "--job", "--job-name"), ("ps.yaml", "--cluster ", "--clusters "), ("worker.yaml", "--stay", "--linger"),
              ("ps.yaml", "serve", "server"), ("ps.yaml", "containerPort: 2222", "containerPort: 2223"), ("ps.yaml", "port: 2222", "port: 2223"),
              ("worker.yaml", "replicas: 2", "replicas: 3"), ("cluster.json", "millrace-ps-1", "millrace-ps-2"),
              ("chief.yaml", "subdomain: millrace-chief", "subdomain: chief"), ("worker.yaml", "  template:", "  template:\n  template:"),
              ("kustomization.yaml", "      - keys/ps-1.key\n", ""), ("kustomization.yaml", "keys/ca.pem", "keys/ca.key"),
              ("chief.yaml", "--task 0", "--task"), ("ps.yaml", "runAsNonRoot: true", "runAsNonRoot: false"),
              ("ps.yaml", "MILLRACE_BIND", "MILLRACE_LISTEN"), ("ps.yaml", "secretName: millrace-keys", "secretName: keys")]
    for name, old, new in plants:
        texts = read_manifests()
        check(old in texts[name], "%s has no '%s'" % (name, old))
        texts[name] = texts[name].replace(old, new)
        try:
            check_manifests(t.millrace, texts)
        except (Failed, KeyError, ValueError, subprocess.CalledProcessError):
            continue
        raise Failed("%s with '%s' in place of '%s' was not noticed" % (name, new, old))


def test_deploy_commands_of_the_pods_make_a_cluster(t):
    """Each pod's shell command, with this machine's addresses in place of the pods' names."""
    found, _ = documents(read_manifests())
    cluster = json.loads(read_manifests()["cluster.json"])
    first, n = t.ports(5), 0
    for job, addresses in cluster["cluster"].items():
        for i in range(len(addresses)):
            addresses[i] = "127.0.0.1:%d" % (first + n)
            n += 1
    path = t.file("cluster.json", json.dumps(cluster))
    bin_dir = os.path.join(t.dir, "bin")
    os.mkdir(bin_dir)
    os.symlink(t.millrace, os.path.join(bin_dir, "millrace"))
    t.program('echo "training as $MILLRACE_TASK: $*"\n', "bin/cluster_mnist")
    keys = t.dir + "/keys"
    check(t.run("keys", "--cluster", path, keys).code == 0, "keys")

    def pod(kind, name, hostname):
        c = pod_of(found[(kind, name)])["containers"][0]
        text = c["command"][2].replace("/etc/millrace/cluster/cluster.json", path)
        env = t.env(HOSTNAME=hostname, PATH=bin_dir + ":" + os.environ["PATH"], MILLRACE_TLS_DIR=keys)
        return subprocess.Popen(c["command"][:2] + [text], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    ps, worker, chief = (pod("StatefulSet", "millrace-ps", "millrace-ps-1"), pod("StatefulSet", "millrace-worker", "millrace-worker-0"),
                         pod("Job", "millrace-chief", "millrace-chief"))
    has(ps.stderr.readline(), "serving /job:ps/task:1 at grpc://127.0.0.1:%d" % (first + 1))
    has(worker.stdout.readline(), "[worker/0] training as worker/0: --sync --checkpoints /checkpoints")
    r = t.finish(chief)
    check(r.code == 0, r.err)
    has(r.out, "[chief/0] training as chief/0: --sync")
    check(worker.poll() is None, "a worker of a set stays")
    for p in (ps, worker):
        p.terminate()
        t.finish(p)


# ---- the image ----

def dockerfile():
    lines = re.sub(r"\\\n", " ", open(os.path.join(DEPLOY, "Dockerfile")).read()).splitlines()
    return [l.split(None, 1) for l in lines if l.strip() and not l.startswith("#")]


def test_deploy_image_is_small_and_not_root(t):
    lines = dockerfile()
    stages = [v for k, v in lines if k == "FROM"]
    check(stages == ["debian:12-slim AS build", "debian:12-slim"], str(stages))
    users = [v for k, v in lines if k == "USER"]
    check(users == ["10001:10001"], str(users))
    check(("ENTRYPOINT", '["millrace"]') in map(tuple, lines), "entry point")
    ports = [v for k, v in lines if k == "EXPOSE"]
    check(ports == [str(help_port(t.millrace))], str(ports))


def test_deploy_image_leaves_keys_and_builds_behind(t):
    ignored = open(os.path.join(DEPLOY, "Dockerfile.dockerignore")).read().split()
    check({"build", ".git", "deploy/kubernetes/keys"} <= set(ignored), str(ignored))


def test_deploy_image_has_the_packages_that_the_library_needs(t):
    last = [v for k, v in dockerfile() if k == "RUN" and "--no-install-recommends" in v][-1]
    packages = set(re.search(r"--no-install-recommends (.*?) &&", last).group(1).split())
    if not os.path.exists("/usr/bin/dpkg-query"):
        return
    needed = set()
    for f in [t.millrace] + [os.path.join(t.build, "lib", "libmillrace-%s.so" % name) for name in ("net", "zookeeper", "image", "icu", "crypto")]:
        text = subprocess.run(["readelf", "-d", f], capture_output=True, text=True, check=True).stdout
        for lib in re.findall(r"NEEDED.*\[(.*)\]", text):
            own = subprocess.run(["dpkg-query", "-S", "*/" + lib], capture_output=True, text=True).stdout
            needed.add(own.partition(":")[0])
    needed = {p for p in needed if p and not p.startswith(("libc6", "libgcc", "libasan", "libubsan", "libtsan"))}
    check(needed == packages, "needed %s, installed %s" % (sorted(needed), sorted(packages)))


def test_deploy_image_copies_what_install_makes(t):
    prefix = t.dir + "/opt"
    if os.path.basename(t.build) not in ("gcc", "clang"):
        return  # sanitizers are not for images
    subprocess.run(["make", "-s", "-C", ROOT, "install", "PREFIX=" + prefix, "CC=" + os.path.basename(t.build)], check=True,
                   stdout=subprocess.DEVNULL, env=t.env())
    for k, v in dockerfile():
        if k == "COPY" and "--from=build" in v:
            for path in v.split()[1:-1]:
                check(os.path.exists(path.replace("/opt/millrace", prefix)), path + " is not there")
        elif k == "COPY" and v != ". /src":
            check(os.path.exists(os.path.join(ROOT, v.split()[0])), v)
    r = subprocess.run([prefix + "/bin/millrace", "keys", t.dir + "/k"], capture_output=True, text=True, env=t.env())
    check(r.returncode == 0, "what was installed does not find libmillrace-net.so: " + r.stderr)
