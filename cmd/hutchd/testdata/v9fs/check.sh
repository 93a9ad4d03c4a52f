# Uses the tree that Linux' own 9P client has mounted on $1 as people do.
# $2 is the dialect, $3 the cache mode. What fails is said, and makes the
# exit status 1. What would wait for ever is ended by who started it.
#
# Linux before 6.4 keeps made-up files in its cache when it is loose, and takes
# them for empty; there they are read with O_DIRECT, and what can only be
# written, stdin, cannot be opened. Later ones keep no file whose qid has
# version 0.
m=$1 dialect=$2 cache=$3
vm=$m/vm/dev
e=$vm/exec/v9-$dialect-$cache
w=$vm/work/$dialect-$cache
bad=0
fail() { echo "$dialect $cache: $*"; bad=1; }
ok() { "$@" || fail "failed: $*"; }
refused() { "$@" 2>/dev/null && fail "not refused: $*"; }
case $cache-$(uname -r) in
none-* | loose-6.[4-9].* | loose-6.[1-9][0-9].* | loose-[7-9].*)
	get=cat put=cat
	first() { head -n 1 $1; }
	bytes() { dd bs=1 status=none if=$1; }
	echoes="exec cat"
	begin() { command exec 9>$e/stdin || fail stdin; } # the input ends with its last close
	say() { echo $1 >&9; }
	end() { exec 9>&-; }
	;;
*)
	printf 'exec dd iflag=direct bs=64k status=none if=$1\n' >/tmp/get
	get="sh /tmp/get" put="dd oflag=direct status=none"
	first() { dd iflag=direct bs=64k count=1 status=none if=$1 | head -n 1; }
	bytes() { dd iflag=direct bs=1 status=none if=$1; }
	echoes="sh for f in one two three end; do until test -e $dialect.\$f; do sleep 0.1; done; test \$f = end || echo \$f; done"
	begin() { :; }
	say() { ok touch $vm/work/$dialect.$1; }
	end() { say end; }
	;;
esac
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
	echo "$echoes" >$e/ctl || fail exec
	rm -f /tmp/out
	mkfifo /tmp/out
	$get $e/stdout >/tmp/out & stream=$!
	exec 8</tmp/out
	begin
	for word in one two three; do
		say $word
		read line <&8
		[ "$line" = $word ] || fail "stream: $line"
	done
	[ "$(first $e/stdout)" = one ] || fail "head of a stream"
	$get $e/wait >/dev/null & term=$!
	$get $m/events >/dev/null & kill=$!
	blocked $stream; blocked $term; blocked $kill
}

# A blocked reader holds up nothing, and dies of signals.
killed() {
	stop TERM $term
	stop KILL $kill
	end
	$get $e/wait | grep -q ^0 || fail "wait: $($get $e/wait)"
	ok wait $stream
	[ -z "$(cat <&8)" ] || fail "stream goes on"
	ok rmdir $e
	ok rm -f $vm/work/$dialect.*
}

ok ls -l $m >/tmp/ls
for f in README ctl events vm; do
	grep -q " $f\$" /tmp/ls || fail "ls: no $f"
done
$get $m/README | grep -q echo || fail "README is $($get $m/README | wc -c) bytes"
[ "$(first $vm/status)" = running ] || fail "status: $($get $vm/status)"
[ "$(bytes $vm/config)" = "$($get $vm/config)" ] || fail "config by bytes"
readers
refused sh -c "echo nonsense | $put >$vm/ctl" # not of a file used later: Linux fails its next write, too
ok sh -c "echo debug on >$m/ctl"
ok sh -c "echo debug off >>$m/ctl"
refused mv $m/version $m/v
refused rm $m/version
ok ls -l $vm >/dev/null
ok mkdir $w
ok sh -c "echo text >$w/a"
ok mv $w/a $w/b
[ "$(cat $w/b)" = text ] || fail "after mv: $(ls $w)"
killed

seq 1000 >$w/f
ok vim -u NONE -i NONE -n -es -c '%s/^1$/first/' -c 'set writebackup backupcopy=no' -c wq $w/f </dev/null
[ "$(head -n 1 $w/f)" = first ] && [ "$(wc -l <$w/f)" = 1000 ] || fail "vim: $(head -n 1 $w/f)"
ok git clone -q --template= /workspace/origin $w/clone
[ -z "$(git -C $w/clone status --porcelain)" ] || fail "git status: $(git -C $w/clone status --porcelain)"
echo other >$w/c
ok mv -f $w/c $w/b
[ "$(cat $w/b)" = other ] || fail "mv over a file: $(cat $w/b)"
ok rm -r $w
exit $bad
