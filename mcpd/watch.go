package mcpd

import (
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// watch has the server of a task tell of it, and says whether it will.
func (l *listen) watch(id string) bool {
	e, t := l.call.session.e, l.call.session.e.made.find(id)
	if t == nil || !t.newer || t.principal != l.call.who {
		return false
	}
	l.mu.Lock()
	l.tasks[id] = false
	l.mu.Unlock()
	about := topic{t.key, t.server, wire.TaskScheme + id}
	if e.subs.add(about, l, id) {
		if e.tell(l.call.ctx, about, "resources/subscribe") == nil {
			return true
		}
		e.subs.remove(about, l)
	}
	l.mu.Lock()
	delete(l.tasks, id)
	l.mu.Unlock()
	return false
}

// taskChanged notes that there is news of a task. It never blocks.
func (l *listen) taskChanged(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, watched := l.tasks[id]; !watched {
		return
	}
	l.tasks[id] = true
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// tellTasks tells the client of the tasks of which there is news. What it tells it
// asks the server for, as the client would, so that ledger and policy see the same:
// what the server says in passing nobody has judged.
func (l *listen) tellTasks() {
	l.mu.Lock()
	var changed []string
	for id, news := range l.tasks {
		if news {
			changed = append(changed, id)
			l.tasks[id] = false
		}
	}
	l.mu.Unlock()
	for _, id := range changed {
		if state, err := l.request(l.call.client, "tasks/get", append(rawjson.AppendString([]byte(`{"taskId":`), id), '}')); err == nil {
			l.notify("notifications/tasks", rawjson.Delete(state, resultNames[rType], resultNames[rMeta]))
		}
	}
	pause(l.call.ctx, roundsPause) // a server may have news all the time
}
