package main

import (
	"fmt"
	"testing"
)

func TestListeningIn(t *testing.T) {
	const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0        4 2
   1: 00000000:0050 00000000:0000 0A 0 0 0 0 0 4 2
   2: 0100007F:1F91 0100007F:9999 01 0 0 0 0 0 4 2
   3: B80D0120000000000000000001000000:01BB 00000000000000000000000000000000:0000 0A 0
   4: 0000000000000000FFFF00000100007F:0035 0:0 0A 0
   5: zz:0050 0:0 0A
   6: 00:0050 0:0 0A
   7: 00000000:10000 0:0 0A
   8:
`
	if got, want := fmt.Sprint(listeningIn(text)), "[{8080 127.0.0.1} {80 0.0.0.0} {443 2001:db8::1} {53 127.0.0.1}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
