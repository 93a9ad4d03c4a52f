# Uses the tree that Linux' own 9P client has mounted on $1 as people do.
# $2 is the dialect, $3 the cache mode. What fails is said, and makes the
# exit status 1. What would wait for ever is ended by who started it.
m=$1 dialect=$2 cache=$3
vm=$m/vm/dev
e=$vm/exec/v9-$dialect-$cache
w=$vm/work/$dialect-$cache
bad=0
fail() { echo "$dialect $cache: $*"; bad=1; }
ok() { "$@" || fail "failed: $*"; }
refused() { "$@" 2>/dev/null && fail "not refused: $*"; }
# blocked PID: the process waits for an answer. Nothing tells when it begins to.
blocked() {
	until grep -q p9_client /proc/$1/wchan; do
		kill -0 $1 || { fail "process $1 does not wait"; return; }
		sleep 0.1
	done
}
# stop SIGNAL PID: the process goes, which one beyond killing does not, and
# tells how long it took.
stop() {
	read t0 rest </proc/uptime
	kill -$1 $2
	wait $2
	read t1 rest </proc/uptime
	echo "$dialect $cache: SIG$1 at $t0 s, gone at $t1 s"
}

# readers starts a command, reads a stream of it line by line, and leaves
# readers that block.
readers() {
	ok mkdir $e
	ok sh -c "echo exec cat >$e/ctl"
	rm -f /tmp/out
	mkfifo /tmp/out
	cat $e/stdout >/tmp/out & stream=$!
	exec 8</tmp/out
	command exec 9>$e/stdin || fail stdin # the input ends with its last close
	for word in one two three; do
		echo $word >&9
		read line <&8
		[ "$line" = $word ] || fail "stream: $line"
	done
	[ "$(head -n 1 $e/stdout)" = one ] || fail "head of a stream"
	cat $e/wait >/dev/null & term=$!
	cat $m/events >/dev/null & kill=$!
	blocked $stream; blocked $term; blocked $kill
}

# A blocked reader holds up nothing, and dies of signals.
killed() {
	stop TERM $term
	stop KILL $kill
	exec 9>&-
	grep -q ^0 $e/wait || fail "wait: $(cat $e/wait)"
	ok wait $stream
	[ -z "$(cat <&8)" ] || fail "stream goes on"
	ok rmdir $e
}

ok ls -l $m >/tmp/ls
for f in README ctl events vm; do
	grep -q " $f\$" /tmp/ls || fail "ls: no $f"
done
if [ $cache = none ]; then # made-up files are empty else
	cat $m/README | grep -q echo || fail "README is $(wc -c <$m/README) bytes"
	[ "$(head -n 1 $vm/status)" = running ] || fail "status: $(cat $vm/status)"
	[ "$(dd if=$vm/config bs=1 2>/dev/null)" = "$(cat $vm/config)" ] || fail "config by bytes"
	readers
	refused sh -c "echo nonsense >$m/ctl" # loose, it is written later
fi
ok sh -c "echo debug on >$m/ctl"
ok sh -c "echo debug off >>$m/ctl"
refused mv $m/version $m/v
refused rm $m/version
ok ls -l $vm >/dev/null
ok mkdir $w
ok sh -c "echo text >$w/a"
ok mv $w/a $w/b
[ "$(cat $w/b)" = text ] || fail "after mv: $(ls $w)"
[ $cache = loose ] || killed

case $dialect-$cache in
*-none)
	seq 1000 >$w/f
	ok vim -u NONE -i NONE -n -es -c '%s/^1$/first/' -c 'set writebackup backupcopy=no' -c wq $w/f </dev/null
	[ "$(head -n 1 $w/f)" = first ] && [ "$(wc -l <$w/f)" = 1000 ] || fail "vim: $(head -n 1 $w/f)"
	;;
9p2000.L-loose)
	ok git clone -q --template= /workspace/origin $w/clone
	[ -z "$(git -C $w/clone status --porcelain)" ] || fail "git status: $(git -C $w/clone status --porcelain)"
	;;
esac
if [ $dialect = 9p2000.L ]; then # 9P2000 puts no file in the place of another
	echo other >$w/c
	ok mv -f $w/c $w/b
	[ "$(cat $w/b)" = other ] || fail "mv over a file: $(cat $w/b)"
fi
ok rm -r $w
exit $bad
