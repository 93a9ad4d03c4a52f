# For Plan 9's mk, in Debian's 9base: /usr/lib/plan9/bin/mk. What stands below
# a target is for a shell; prefix and DESTDIR are variables of it.

prefix=/usr/local
DESTDIR=

all:V:
	CGO_ENABLED=0 go build -o bin/ ./cmd/...
	CGO_ENABLED=0 go build -C vmm/gvisor/runsc -ldflags '-s -w' -o ../../../bin/runsc .

kernel:V:
	rm -rf bin/kernel && mkdir -p bin/kernel
	cd bin/kernel && apt-get download $(apt-cache depends linux-image-cloud-$(dpkg --print-architecture) | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p') && dpkg -x *.deb .

test:V:
	go test ./...

check:V:
	go vet ./...
	go test -race ./...

bench:V:
	go run ./cmd/hutch bench

# What mk all has made, and a kernel that mk kernel has: nothing of the
# checkout is needed afterwards. "mk prefix=$HOME/.local install" is for one user.
install:V:
	lib=$DESTDIR$prefix/lib share=$DESTDIR$prefix/share
	mkdir -p $DESTDIR$prefix/bin $lib/hutch $lib/systemd/system $share/systemd/user
	for p in hutch hutchd aggd locald guest runsc; do install -m 755 bin/$p $lib/hutch/$p; done
	for p in hutch hutchd; do ln -sf ../lib/hutch/$p $DESTDIR$prefix/bin/$p; done
	for d in boot lib; do
		if test -d bin/kernel/$d; then mkdir -p $lib/hutch/kernel; cp -R bin/kernel/$d $lib/hutch/kernel/; fi
	done
	for p in cmd/*/*.1 cmd/hutchd/tree/*.4 profiles/*.5 profiles/*/*.5 mcpd/*/*.5 cmd/*/*.8; do
		mkdir -p $share/man/man${p##*.}; install -m 644 $p $share/man/man${p##*.}/
	done
	mkdir -p $share/bash-completion/completions $share/zsh/site-functions $share/fish/vendor_completions.d
	bin/hutch completion bash >$share/bash-completion/completions/hutch
	bin/hutch completion zsh >$share/zsh/site-functions/_hutch
	bin/hutch completion fish >$share/fish/vendor_completions.d/hutch.fish
	sed "s,@prefix@,$prefix," cmd/hutchd/system.service >$lib/systemd/system/hutchd.service
	sed "s,@prefix@,$prefix," cmd/hutchd/user.service >$share/systemd/user/hutchd.service # where a user has units in ~/.local, too

# A Debian package, bin/hutch_VERSION_ARCHITECTURE.deb, of what mk all has made.
# Virtual machines boot the kernel of the machine that it is installed on.
deb:V:
	dir=$(mktemp -d)
	trap 'rm -rf $dir' EXIT
	PATH=$PATH:/usr/lib/plan9/bin
	mk prefix=/usr DESTDIR=$dir/hutch install
	rm -rf $dir/hutch/usr/lib/hutch/kernel
	cmd/hutchd/deb $dir/hutch
