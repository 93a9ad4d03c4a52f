# For Plan 9's mk; each line is a command that can be typed as it stands.

all:V:
	CGO_ENABLED=0 go build -o bin/ ./cmd/...
	CGO_ENABLED=0 go build -C vmm/gvisor/runsc -ldflags '-s -w' -o ../../../bin/runsc gvisor.dev/gvisor/runsc

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

install:V:
	CGO_ENABLED=0 go install ./cmd/...
	CGO_ENABLED=0 go install -C vmm/gvisor/runsc -ldflags '-s -w' gvisor.dev/gvisor/runsc
