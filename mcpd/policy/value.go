package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// A decoded text of JSON is kept for the rules that follow.
type decoded struct {
	text  []byte
	value any // of text; nil: it was not decoded yet
}

// table returns the object that text says, as conditions see it; for what is
// no object, an error of CEL that says so of what.
func (d *decoded) table(text []byte, what string) any {
	if d.value == nil || !same(d.text, text) {
		*d = decoded{text, decodeTable(text, what)}
	}
	return d.value
}

// same tells whether two texts are the same bytes of memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func decodeTable(text []byte, what string) any {
	if len(text) == 0 {
		return map[string]any{}
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return types.NewErr("the %s are no JSON", what)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}
	case map[string]any:
		return valueOf(v)
	}
	return types.NewErr("the %s are no object", what)
}

// valueOf returns what conditions see of a decoded value: lists as CEL has
// them, so that not each condition makes that of them anew. What a table holds is
// changed in place.
func valueOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = valueOf(inner)
		}
	case []any:
		list := make([]ref.Val, len(v))
		for i, inner := range v {
			list[i] = types.DefaultTypeAdapter.NativeToValue(valueOf(inner))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case json.Number:
		return numberOf(string(v))
	}
	return v
}

// numberOf returns a number without rounding what is written as a whole one.
func numberOf(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
		return huge{}
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return huge{}
	case math.Abs(f) < 1<<53 || f >= 1<<64 || f < -1<<63:
		return f
	case rounds(f, text):
		return huge{}
	case f >= 1<<63:
		return uint64(f)
	}
	return int64(f) // as CEL rounds a whole number that it compares with another kind
}

// rounds says whether the number that text is becomes another as f.
func rounds(f float64, text string) bool {
	if len(text) > maxExponent {
		return true
	}
	is, ok := new(big.Rat).SetString(text)
	return !ok || is.Cmp(new(big.Rat).SetFloat64(f)) != 0
}

// huge is a number that no type of CEL holds. It is equal to nothing, and no
// function takes it. An error in its place would not do: CEL takes a table for
// equal to any other where it cannot compare their values.
type huge struct{}

var hugeType = cel.ObjectType("huge")

// Equal is for CEL, as the others are.
func (huge) Equal(ref.Val) ref.Val                     { return types.False }
func (huge) Type() ref.Type                            { return hugeType }
func (huge) Value() any                                { return nil }
func (huge) ConvertToNative(reflect.Type) (any, error) { return nil, errHuge }
func (huge) ConvertToType(to ref.Type) ref.Val {
	if to == types.TypeType {
		return hugeType
	}
	return types.WrapErr(errHuge)
}

var errHuge = errors.New("the number is too large for conditions")

// arguments are what is asked for, decoded once.
func (e *Event) arguments() any { return e.seen.args.table(e.Args, "arguments") }

// answer is what came of it, decoded once; an empty table if it is none.
func (e *Event) answer() map[string]any {
	m, _ := e.seen.answer.table(e.Answer, "results").(map[string]any)
	return m
}

// What came of a request.
const (
	statusOK     = "ok"
	statusFailed = "failed" // the result says that the tool did
	statusError  = "error"  // there is no result
)

func (e *Event) status() string {
	says, _ := e.answer()["isError"].(bool)
	switch {
	case says && !e.Error:
		return statusFailed
	case e.Failed:
		return statusError
	}
	return statusOK
}

// content is the list that a result has: a tool's content, a resource's
// contents, a prompt's messages; of an error, its message as a text.
func (e *Event) content() any {
	answer := e.answer()
	if e.status() == statusError {
		return []any{map[string]any{"type": "text", "text": answer["message"]}}
	}
	for _, name := range []string{"content", "contents", "messages"} {
		if list, ok := answer[name].(traits.Lister); ok {
			return list
		}
	}
	return []any{}
}

// structured is a result's structured content; of an error, its data.
func (e *Event) structured() any {
	name := "structuredContent"
	if e.status() == statusError {
		name = "data"
	}
	v, ok := e.answer()[name]
	if !ok {
		return map[string]any{}
	}
	return v
}
