"""The configuration files of a test cluster, as text. No I/O.

`Shape` says what the cluster looks like; the functions below render slurm.conf, gres.conf,
cgroup.conf and slurmdbd.conf for it. slurm.py writes and uses them.
"""

from dataclasses import dataclass, field

# name, CPUs, memory in MB, gres, feature. GPUs are device files with nvidia's major number and no
# driver behind them, so that Slurm counts, binds and accounts them as it does real ones.
NODES = [
    ("h100n1", 32, 256000, "gpu:h100:4", "h100"),
    ("h100n2", 32, 256000, "gpu:h100:4", "h100"),
    ("h200n1", 64, 512000, "gpu:h200:8", "h200"),
    ("mign1", 32, 256000, "gpu:1g.12gb:4,gpu:2g.24gb:2", "mig"),
    ("cpun1", 64, 256000, "", "cpu"),
]
GPU_FILES = [("h100n1", "h100", "0-3"), ("h100n2", "h100", "0-3"), ("h200n1", "h200", "0-7"),
             ("mign1", "1g.12gb", "0-3"), ("mign1", "2g.24gb", "4-5")]
TRES = "gres/gpu,gres/gpu:h100,gres/gpu:h200,gres/gpu:1g.12gb,gres/gpu:2g.24gb"


@dataclass
class Shape:
    """What a cluster is made of. `dir` is its folder, `port` the first of its 16 ports."""

    dir: str
    port: int
    accounting: bool = False
    cgroups: bool = False
    prefix: str = ""  # of node names: cgroup folders are named after the node alone
    plugin_dir: str = ""  # of another Slurm version
    settings: dict = field(default_factory=dict)  # lines of slurm.conf to add or replace

    def nodes(self):
        return [self.prefix + node[0] for node in NODES]


TIMERS = {
    "MessageTimeout": 10,
    "SlurmctldTimeout": 30,
    "SlurmdTimeout": 15,
    "InactiveLimit": 0,
    "KillWait": 5,
    "UnkillableStepTimeout": 30,
    "MinJobAge": 60,
    "OverTimeLimit": 0,
    "WaitTime": 0,
    "CompleteWait": 0,
    "BatchStartTimeout": 10,
}

# 0.4 to 0.6 s from sbatch to the script's first line.
SCHEDULING = {
    "SchedulerType": "sched/backfill",
    "SchedulerParameters":
        "sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1,bf_continue,"
        "bf_window=1440,bf_resolution=60,default_queue_depth=1000,bf_max_job_test=1000,"
        "preempt_youngest_first,preempt_reorder_count=1",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": 100,
    "PriorityType": "priority/multifactor",
    "PriorityWeightQOS": 10000,
    "PriorityWeightAge": 100,
    "PriorityWeightFairshare": 1000,
    "PriorityWeightPartition": 1000,
    "MaxArraySize": 10001,
    "MaxJobCount": 20000,
    "GresTypes": "gpu",
    "JobRequeue": 1,
    "PreemptMode": "REQUEUE",
    "PreemptExemptTime": "00:00:00",
}


def daemons(shape):
    """Who the daemons are, where they listen and where they write."""
    d, on = shape.dir, shape.cgroups
    return {
        "ClusterName": "berth",
        "SlurmctldHost": "localhost",
        "SlurmctldPort": shape.port,
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        # Requeued jobs wait for cred_expire; the default is 120 s.
        "AuthInfo": f"socket={d}/run/munge.sock,cred_expire=10",
        "CredType": "cred/munge",
        # Without this the daemons listen on all addresses.
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
        "StateSaveLocation": f"{d}/state",
        "SlurmdSpoolDir": f"{d}/spool/%n",
        "SlurmctldPidFile": f"{d}/run/slurmctld.pid",
        "SlurmdPidFile": f"{d}/run/slurmd-%n.pid",
        "SlurmctldLogFile": f"{d}/log/slurmctld.log",
        "SlurmdLogFile": f"{d}/log/slurmd-%n.log",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
        "ProctrackType": "proctrack/cgroup" if on else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if on else "task/none",
        "JobAcctGatherType": "jobacct_gather/cgroup" if on else "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "ReturnToService": 2,
        "SlurmdParameters": "config_overrides",  # lets a node claim more than the machine has
        "LaunchParameters": "use_interactive_step",
        "PreemptType": "preempt/qos" if shape.accounting else "preempt/partition_prio",
    } | ({"PluginDir": shape.plugin_dir} if shape.plugin_dir else {})


def accounting(shape):
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": shape.port + 1,
        # Else connections to slurmdbd use the machine's default munge socket.
        "AccountingStoragePass": f"{shape.dir}/run/munge.sock",
        "AccountingStorageTRES": TRES,
        "AccountingStorageEnforce": "associations,limits,qos,safe",
        "AccountingStoreFlags": "job_script,job_env,job_comment",
    }


def slurm_conf(shape):
    settings = daemons(shape) | TIMERS | SCHEDULING
    if shape.accounting:
        settings |= accounting(shape)
    settings |= shape.settings
    lines = [f"{key}={value}" for key, value in settings.items() if value != ""]
    for i, (name, cpus, memory, gres, feature) in enumerate(NODES):
        lines.append(f"NodeName={shape.prefix}{name} NodeHostname=localhost NodeAddr=127.0.0.1 "
                     f"Port={shape.port + 11 + i} CPUs={cpus} RealMemory={memory} "
                     f"Feature={feature}" + (f" Gres={gres}" if gres else ""))
    p = shape.prefix
    return "\n".join(lines + [
        "PartitionName=DEFAULT State=UP DefaultTime=00:10:00 MaxTime=1-00:00:00 OverSubscribe=NO",
        f"PartitionName=cpu Nodes={p}cpun1 Default=YES",
        f"PartitionName=h100 Nodes={p}h100n[1-2]",
        f"PartitionName=h200 Nodes={p}h200n1",
        f"PartitionName=mig Nodes={p}mign1",
        f"PartitionName=short Nodes={p}h100n[1-2] MaxTime=00:02:00 DefaultTime=00:01:00",
        f"PartitionName=preempt Nodes={p}h100n[1-2],{p}h200n1 PriorityTier=0 PreemptMode=REQUEUE "
        "GraceTime=5",
    ]) + "\n"


def gres_conf(shape):
    return "AutoDetect=off\n" + "".join(
        f"NodeName={shape.prefix}{node} Name=gpu Type={kind} File={shape.dir}/dev/nvidia[{span}]\n"
        for node, kind, span in GPU_FILES)


def cgroup_conf(shape):
    yes = "yes" if shape.cgroups else "no"
    return ("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainCores=no\n"
            f"ConstrainDevices={yes}\nConstrainRAMSpace={yes}\nConstrainSwapSpace={yes}\n"
            "AllowedSwapSpace=0\n")


def slurmdbd_conf(shape):
    d = shape.dir
    plugins = f"PluginDir={shape.plugin_dir}\n" if shape.plugin_dir else ""
    return (f"AuthType=auth/munge\nAuthInfo=socket={d}/run/munge.sock\n{plugins}"
            f"DbdHost=localhost\nDbdPort={shape.port + 1}\nSlurmUser=root\n"
            "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\n"
            f"StorageLoc=slurm_acct\nPidFile={d}/run/slurmdbd.pid\n"
            f"LogFile={d}/log/slurmdbd.log\nDebugLevel=info\nCommitDelay=1\n")


# What sacctmgr is told, one session a line group: a session caches its list of QOSs, and a QOS
# named in Preempt= must exist already.
ACCOUNTING_SESSIONS = [
    "add qos low set Priority=0 GraceTime=5 PreemptMode=requeue\n",
    "add qos high set Priority=1000 Preempt=normal,low\n",
    "modify qos normal set Priority=100\n"
    "add cluster berth\n"
    "add account gaia,vesta,infra cluster=berth\n"
    "add user alice,bob account=gaia qos=normal,low,high defaultqos=normal\n"
    "add user bob account=vesta qos=normal,low defaultqos=normal\n"
    "add user svc-berth,root account=infra qos=normal,low,high defaultqos=normal\n"
    "add user svc-berth account=gaia,vesta qos=normal,low,high defaultqos=normal\n",
]
