# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style and script of the page, both inside it. Without the script the page shows the same; it only adds filters and sorting."""

from __future__ import annotations

STYLE = """
:root{--bg:#f6f6f3;--panel:#fff;--ink:#1c2429;--soft:#5d6a72;--line:#e0e2dd;--good:#14806f;--fair:#b26a00;--bad:#bf2f2a;--wash:#eef1ee;--accent:#285f8f;
--shadow:0 1px 2px rgba(20,30,30,.05),0 4px 16px rgba(20,30,30,.04)}
@media (prefers-color-scheme:dark){:root{--bg:#12171a;--panel:#1a2125;--ink:#e4e9ea;--soft:#93a1a8;--line:#2b353a;--good:#43b7a2;--fair:#e0a040;
--bad:#ef7a72;--wash:#20292e;--accent:#82b6e3;--shadow:none}}
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main,header{max-width:1160px;margin:0 auto;padding:0 20px}
header{padding-top:34px;display:flex;flex-wrap:wrap;gap:6px 18px;align-items:baseline}
h1{font-size:26px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
header p{margin:0;color:var(--soft)}
.verdict{margin-left:auto;padding:3px 14px;border-radius:99px;font-weight:600;color:var(--panel)}
.verdict.good{background:var(--good)}.verdict.fair{background:var(--fair)}.verdict.bad{background:var(--bad)}
h2{font-size:17px;margin:0;display:inline}
.tiles{display:grid;grid-template-columns:repeat(5,1fr);gap:10px;margin:22px 0 16px}
.tile{background:var(--panel);border-radius:10px;padding:12px 14px;box-shadow:var(--shadow);border:1px solid var(--line)}
.tile b{display:block;font-size:22px;font-weight:600;line-height:1.2;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile b small{font-size:14px;font-weight:400;color:var(--soft)}
.tile span.what{color:var(--soft);font-size:13px}
.tile.good b{color:var(--good)}.tile.fair b{color:var(--fair)}.tile.bad b{color:var(--bad)}
.map,details{background:var(--panel);border:1px solid var(--line);border-radius:12px;box-shadow:var(--shadow);margin:0 0 16px}
.map{padding:14px}
.map svg{display:block;width:100%;height:auto;max-height:640px}
.map svg.tall{display:none}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft);margin:6px 4px 0;padding:0;list-style:none}
.legend i{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:6px}
.legend i.good{background:var(--good)}.legend i.fair{background:var(--fair)}.legend i.bad{background:var(--bad)}
.disc{fill:var(--wash);stroke:var(--line);stroke-width:1.5}
.disc.bad{stroke:var(--bad);stroke-dasharray:5 5}
.ring-good{stroke:var(--good);stroke-width:3}.ring-fair{stroke:var(--fair);stroke-width:3}.ring-bad{stroke:var(--bad);stroke-width:3}
.dot.good{fill:var(--good)}.dot.fair{fill:var(--fair)}.dot.bad{fill:var(--bad)}
.link path{fill:none;stroke-linecap:butt;opacity:.8}
.link path.good{stroke:var(--good)}.link path.fair{stroke:var(--fair)}.link path.bad{stroke:var(--bad)}
.tag rect{fill:var(--panel);stroke:var(--line)}
svg text{fill:var(--ink);font-size:13px;text-anchor:middle}
svg text.label{text-anchor:start}
svg text.name,svg text.under{paint-order:stroke;stroke:var(--panel);stroke-width:6px;stroke-linejoin:round}
svg text.name{font-size:16px;font-weight:600}svg text.under{fill:var(--soft)}
svg text.small{font-size:11px}svg text.name.small{font-size:12px}
details>summary{cursor:pointer;padding:13px 16px;list-style:none;display:flex;gap:10px;align-items:baseline}
details>summary::-webkit-details-marker{display:none}
details>summary::before{content:"";width:7px;height:7px;border:solid var(--soft);border-width:0 2px 2px 0;transform:rotate(-45deg);flex:none;align-self:center}
details[open]>summary::before{transform:rotate(45deg)}
summary .count{color:var(--soft);font-size:14px;font-variant-numeric:tabular-nums}
summary:focus-visible,input:focus-visible,th:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.body{padding:0 16px 14px}
.note{color:var(--soft);margin:0 0 10px;font-size:14px}
.trends{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:16px;margin:0 0 12px}
.trends figure{margin:0}.trends svg{display:block;width:100%;height:36px}
.trends polyline{fill:none;stroke:var(--accent);stroke-width:2;vector-effect:non-scaling-stroke}
.trends figcaption{color:var(--soft);font-size:13px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;color:var(--soft);font-weight:500;font-size:13px;padding:6px 12px 6px 0;border-bottom:1px solid var(--line);white-space:nowrap}
td{padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
td.mono,td.long,td.key{overflow-wrap:anywhere;min-width:150px}td.wide{width:90%}
td a{color:var(--accent)}svg a{cursor:pointer}
tr:last-child td{border-bottom:0}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;overflow-wrap:normal}
td.num+td:not(.num),th.num+th:not(.num){padding-left:16px}
td.key,td.mono{font-family:ui-monospace,"SFMono-Regular",Menlo,"DejaVu Sans Mono",monospace;font-size:12.5px}
td.name{font-weight:500}
th.sortable{cursor:pointer}
th[aria-sort=ascending]::after{content:" \\2191"}th[aria-sort=descending]::after{content:" \\2193"}
.pill{display:inline-block;padding:0 9px;border-radius:99px;font-size:12.5px;border:1px solid currentColor;white-space:nowrap}
.pill.good{color:var(--good)}.pill.fair{color:var(--fair)}.pill.bad{color:var(--bad)}
input[type=search]{width:100%;max-width:340px;font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:8px;
padding:6px 12px;margin:0 0 10px}
footer{max-width:1160px;margin:8px auto 40px;padding:0 20px;color:var(--soft);font-size:13px}
@media (max-width:700px){
main,header,footer{padding-left:12px;padding-right:12px}header{padding-top:20px}h1{font-size:22px}.verdict{margin-left:0}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
.tile b{font-size:20px;white-space:normal}.trends{grid-template-columns:1fr}
.map svg.wide{display:none}.map svg.tall{display:block;max-height:none}
table,tbody{display:block}thead{display:none}
tr{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:4px 12px;border-bottom:1px solid var(--line);padding:10px 0}
tr:last-child{border-bottom:0}
td,td.num+td:not(.num){border:0;padding:0;display:block}
td:first-child{grid-column:1/-1;font-weight:600}td:first-child::before{display:none}
td.mono,td.long{grid-column:1/-1}
td,td.mono,td.long{overflow-wrap:anywhere;min-width:0;width:auto}
td.num{text-align:left;white-space:normal}td::before{content:attr(data-l);display:block;color:var(--soft);font:11.5px/1.4 system-ui,"DejaVu Sans",sans-serif}
td.none{display:none}
input[type=search]{max-width:none}
}
@media (max-width:700px){tr[hidden]{display:none}}
@media print{body{background:#fff}details,.map,.tile{box-shadow:none;break-inside:avoid}input{display:none}}
"""

SCRIPT = """
(function(){
"use strict";
document.querySelectorAll("a[data-f]").forEach(function(link){
  link.addEventListener("click",function(){
    var box=document.getElementById("tunnels"),input=box&&box.querySelector("input");
    if(!box){return;}
    box.open=true;
    if(input){input.value=link.getAttribute("data-f");input.dispatchEvent(new Event("input"));}
  });
});
document.querySelectorAll("table").forEach(function(table){
  var body=table.tBodies[0],rows=Array.prototype.slice.call(body.rows);
  if(rows.length>5){
    var input=document.createElement("input");
    input.type="search";input.placeholder="Filter";input.setAttribute("aria-label","Filter "+table.getAttribute("aria-label"));
    var texts=rows.map(function(row){return row.textContent.toLowerCase();});
    input.addEventListener("input",function(){
      var words=input.value.toLowerCase().split(/\\s+/).filter(Boolean);
      rows.forEach(function(row,i){row.hidden=!words.every(function(word){return texts[i].indexOf(word)>=0;});});
    });
    table.parentNode.parentNode.insertBefore(input,table.parentNode);
  }
  if(rows.length<2||!table.tHead){return;}
  Array.prototype.forEach.call(table.tHead.rows[0].cells,function(head,column){
    head.className+=" sortable";head.tabIndex=0;
    function value(row){
      var cell=row.cells[column],number=cell.querySelector("[data-v]");
      return number?Number(number.getAttribute("data-v")):cell.textContent;
    }
    function sort(){
      var down=head.getAttribute("aria-sort")==="ascending";
      Array.prototype.forEach.call(table.tHead.rows[0].cells,function(other){other.removeAttribute("aria-sort");});
      head.setAttribute("aria-sort",down?"descending":"ascending");
      rows.map(function(row,i){return [value(row),i,row];}).sort(function(a,b){
        var order=typeof a[0]==="number"&&typeof b[0]==="number"?a[0]-b[0]:String(a[0]).localeCompare(String(b[0]));
        return (down?-order:order)||a[1]-b[1];
      }).forEach(function(entry){body.appendChild(entry[2]);});
    }
    head.addEventListener("click",sort);
    head.addEventListener("keydown",function(event){if(event.key==="Enter"||event.key===" "){event.preventDefault();sort();}});
  });
});
})();
"""
