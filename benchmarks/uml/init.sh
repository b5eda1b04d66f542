#!/bin/sh
# The first process in User-Mode Linux: a writable overlay over the host's file system, modules, then the job.
# UML_RUN: the one directory that is shared with the host, at the same path; it carries the job in and its words out.
# UML_WRITABLE: another, if there is one, that the job may write to.
# UML_SECONDS: after so long the machine goes down whatever the job does. Nothing else of the host can be written.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
over=/mnt
modules=/usr/lib/uml/modules/$(uname -r)/kernel
failed() { echo "uml: $*"; }

mount -t proc proc /proc
insmod "$modules/fs/overlayfs/overlay.ko" || failed "no overlayfs"
mount -t tmpfs -o size=256M tmpfs $over && mkdir -p $over/up $over/work $over/root
mount -t overlay overlay -o "nosuid,lowerdir=/,upperdir=$over/up,workdir=$over/work" $over/root || failed "no overlay"
cd $over/root && pivot_root . ".$over" && umount -l $over # a mere chroot is left by whoever enters a mount namespace
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
for shared in "$UML_RUN" ${UML_WRITABLE:+"$UML_WRITABLE"}; do
    mkdir -p "$shared" && mount -t hostfs none -o "$shared" "$shared" || failed "cannot share $shared"
done
for module in lib/crc-ccitt net/ipv6/ipv6 net/llc/llc net/802/stp net/bridge/bridge drivers/net/veth net/sched/sch_netem \
    net/sched/sch_htb net/sched/sch_ingress net/sched/cls_u32 net/sched/act_mirred drivers/net/ifb; do
    insmod "$modules/$module.ko" 2>/dev/null || failed "no module $module"
done
ip link set lo up
cd "$UML_RUN" || failed "no $UML_RUN"
timeout --kill-after=5 "$UML_SECONDS" /bin/sh ./job <stdin >stdout 2>stderr
echo $? >status
sync
echo o >/proc/sysrq-trigger
sleep 60
