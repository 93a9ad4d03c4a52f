package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPrintRows(t *testing.T) {
	const rows = `{"id":1,"name":"a","b":null}` + "\n" + `{"id":20,"name":"x\ny,\"z\" äöü","b":2.50}` + "\n"
	for mode, want := range map[string]string{
		"json":  rows,
		"csv":   "id,name,b\n1,a,\n20,\"x\ny,\"\"z\"\" äöü\",2.50\n",
		"table": "id  name          b\n 1  a\n20  x\\ny,\"z\" äöü  2.50\n",
	} {
		var got bytes.Buffer
		if err := printRows(&got, mode, strings.NewReader(rows)); err != nil || got.String() != want {
			t.Errorf("%s: %v\n%swant\n%s", mode, err, got.String(), want)
		}
	}
	lost := errors.New("lost")
	for _, mode := range modes { // what came before is printed
		var got bytes.Buffer
		err := printRows(&got, mode, io.MultiReader(strings.NewReader(rows), failing{lost}))
		if !errors.Is(err, lost) || !strings.Contains(got.String(), "äöü") {
			t.Errorf("%s, cut: %v, %s", mode, err, got.String())
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		widths []int
		room   int
		want   []int
	}{
		{[]int{3, 50, 60}, 40, []int{3, 18, 19}},
		{[]int{3, 5}, 40, []int{3, 5}},
		{[]int{20, 20, 20}, 5, []int{4, 4, 4}},
	} {
		fit(tt.widths, tt.room)
		sum := 0
		for i, w := range tt.widths {
			sum += w
			if d := w - tt.want[i]; d < -1 || d > 1 {
				t.Errorf("%v, want %v", tt.widths, tt.want)
			}
		}
		if sum > max(tt.room, 12) {
			t.Errorf("%v are more than %d", tt.widths, tt.room)
		}
	}
}
