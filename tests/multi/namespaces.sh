#!/usr/bin/env bash
# namespaces.sh - a product by four hosts that are none: network namespaces on one machine
#
#   tests/multi/namespaces.sh PROGRAM [ARGUMENT]...      PROGRAM: bench_kernel_mpi
#
# Runs the program on one rank, and then over TCP on four ranks, each in a network namespace of its
# own: once with links as fast as the machine, and once with links of 1 Gbit/s and a tenth of a
# millisecond.  All must give the same results.  Prints the line of each run and how much of the
# speed is left on the slow links.  The namespaces go in the end.  Status 77: this system does not
# let the caller make them.
#
# GRAM_NAMESPACES=RATE,...   other rates than 1gbit, as tc has them
#
# SPDX-License-Identifier: MIT
set -euo pipefail
hosts=4
rates=${GRAM_NAMESPACES:-1gbit}
name=gram$$
folder=$(mktemp -d)

skip() {
    echo "namespaces: skipped, $1"
    exit 77
}

clean() {
    for i in $(seq $hosts); do
        ip netns del "$name-$i" 2>/dev/null || true
    done
    ip link del "$name" 2>/dev/null || true
    rm -rf "$folder"
}

[ $# -ge 1 ] || { echo "usage: namespaces.sh PROGRAM [ARGUMENT]..." >&2; exit 2; }
for tool in ip tc unshare mpirun; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
trap clean EXIT
mpirun --version 2>&1 | grep -q 'Open MPI) 4' || skip "mpirun is not of Open MPI 4"
# A private network: the third number tells runs beside each other apart.
net=10.$((128 + $$ / 256 % 64)).$(($$ % 256))

host() { # NUMBER: a namespace with an address on the bridge
    ip netns add "$name-$1" &&
        ip link add "v$$-$1" type veth peer name eth0 netns "$name-$1" &&
        ip link set "v$$-$1" master "$name" up &&
        ip -n "$name-$1" addr add "$net.$1/24" dev eth0 &&
        ip -n "$name-$1" link set lo up &&
        ip -n "$name-$1" link set eth0 up &&
        ip netns exec "$name-$1" unshare --uts true
}

make_hosts() {
    ip link add "$name" type bridge && ip addr add "$net.254/24" dev "$name" &&
        ip link set "$name" up || return
    for i in $(seq $hosts); do
        host "$i" || return
    done
}

make_hosts 2>"$folder/why" || skip "$(head -n 1 "$folder/why")"

# What mpirun calls in place of ssh: HOST COMMAND...
cat >"$folder/shell" <<EOF
#!/bin/sh
host=\$1
shift
exec ip netns exec $name-\${host##*.} unshare --uts sh -c "hostname host\${host##*.}; \$*"
EOF
chmod +x "$folder/shell"
list=$(seq -s, -f "$net.%g" $hosts)

# Rank by rank in its namespace, over TCP alone.
on_hosts() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n $hosts --host "$list" \
        --mca plm_rsh_agent "$folder/shell" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self \
        --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" \
        --mca orte_keep_fqdn_hostnames 1 --mca mpi_yield_when_idle 1 --mca plm_base_verbose 0 \
        -x GRAM_NUM_THREADS=1 "$@"
}

number() { # NAME of the line on standard input
    sed -n "s/.*\"$1\": \([-+.e0-9]*\).*/\1/p"
}

expect_same() { # LINE of one rank, LINE of four
    for what in sum squares; do
        awk -v a="$(echo "$1" | number $what)" -v b="$(echo "$2" | number $what)" \
            'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 <= 1e-10 * a * a) }' ||
            { echo "namespaces: $what differs: $1 and $2" >&2; exit 1; }
    done
}

alone=$(GRAM_NUM_THREADS=1 "$@")
echo "one rank:   $alone"
fast=$(on_hosts "$@")
echo "four hosts: $fast"
expect_same "$alone" "$fast"
for rate in ${rates//,/ }; do
    for i in $(seq $hosts); do
        ip netns exec "$name-$i" tc qdisc replace dev eth0 root handle 1: tbf rate "$rate" \
            burst 128kb latency 50ms &&
            tc qdisc replace dev "v$$-$i" root handle 1: tbf rate "$rate" burst 128kb \
                latency 50ms || skip "tc limits no rates here"
    done
    slow=$(on_hosts "$@")
    echo "$rate:      $slow"
    expect_same "$alone" "$slow"
    awk -v a="$(echo "$fast" | number least)" -v b="$(echo "$slow" | number least)" \
        -v rate="$rate" \
        'BEGIN { printf "%s: %.1f %% of the speed without a limit\n", rate, 100 * a / b }'
done
