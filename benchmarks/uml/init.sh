#!/bin/sh
# The first process in User-Mode Linux: a writable overlay over the host's file system, modules, then the job.
# UML_RUN: the one directory that is shared with the host, at the same path; it carries the job in and its words out.
# UML_SECONDS: after so long the machine goes down whatever the job does. Nothing else of the host can be written.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
over=/mnt
modules=/usr/lib/uml/modules/$(uname -r)/kernel
failed() { echo "uml: $*"; }

mount -t proc proc /proc
mount -t sysfs sysfs /sys
insmod "$modules/fs/overlayfs/overlay.ko" || failed "no overlayfs"
mount -t tmpfs -o size=256M tmpfs $over && mkdir -p $over/up $over/work $over/root
mount -t overlay overlay -o "nosuid,lowerdir=/,upperdir=$over/up,workdir=$over/work" $over/root || failed "no overlay"
root=$over/root
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t devtmpfs devtmpfs $root/dev
mount -t tmpfs -o mode=755 tmpfs $root/run
mkdir -p "$root$UML_RUN" && mount -t hostfs none -o "$UML_RUN" "$root$UML_RUN" || failed "cannot share $UML_RUN"
for module in lib/crc-ccitt net/ipv6/ipv6 net/llc/llc net/802/stp net/bridge/bridge drivers/net/veth net/sched/sch_netem \
    net/sched/sch_htb net/sched/sch_ingress net/sched/cls_u32 net/sched/act_mirred drivers/net/ifb; do
    insmod "$modules/$module.ko" 2>/dev/null || failed "no module $module"
done
ip link set lo up
timeout --kill-after=5 "$UML_SECONDS" chroot $root /bin/sh "$UML_RUN/job" <"$root$UML_RUN/stdin" >"$root$UML_RUN/stdout" 2>"$root$UML_RUN/stderr"
echo $? >"$root$UML_RUN/status"
sync
echo o >/proc/sysrq-trigger
sleep 60
