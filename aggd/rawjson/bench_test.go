package rawjson

import (
	"strings"
	"testing"
)

var (
	benchCall = []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"local__echo","arguments":{"text":"hello there"},"_meta":{"progressToken":1}}}`)
	benchBig  = []byte(`{"jsonrpc":"2.0","id":12,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`some text\n`, 10000) + `"}]}}`)
	benchText = strings.Repeat("some text é\n", 1000)
)

func BenchmarkObject(b *testing.B) {
	none := func([]byte, int, int) error { return nil }
	each(b, map[string]func(){
		"call": func() { Object(benchCall, MaxDepth, none) },
		"big":  func() { Object(benchBig, MaxDepth, none) },
	})
}

func BenchmarkGet(b *testing.B) {
	each(b, map[string]func(){
		"call": func() { Get(benchCall, "params", "_meta", "progressToken") },
		"big":  func() { Get(benchBig, "result") },
	})
}

func BenchmarkSet(b *testing.B) {
	each(b, map[string]func(){
		"value":  func() { Set(benchCall, []byte("7"), "params", "_meta", "progressToken") },
		"string": func() { SetString(benchCall, "x", "params", "name") },
	})
}

func BenchmarkQuote(b *testing.B) {
	each(b, map[string]func(){
		"name": func() { Quote("some_tool/of/that name") },
		"text": func() { Quote(benchText) },
	})
}

func BenchmarkLine(b *testing.B) {
	each(b, map[string]func(){"big": func() { Line(benchBig) }})
}

func each(b *testing.B, of map[string]func()) {
	for name, do := range of {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}
