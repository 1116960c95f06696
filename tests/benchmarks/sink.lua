-- The service of a benchmark inside nginx: takes uploads, and answers searches in the form that peer.py uses.
--
-- The database shows an asset at once and without paging, the index after a lag. One process runs this code, so the
-- assets are kept in its variables. It checks nothing but that an upload is whole.

local sink = {}

local COLUMNS = '["id","filename","folder_id","folder_name","extension","video_image","filename_org","kind",'
    .. '"extension_thumb","path_to_asset","cloud_url","cloud_url_org","size","size_num","width",'
    .. '"height","isalias","description","keywords","dateadd","datechange","expiry_date_actual",'
    .. '"local_url_org","local_url_thumb","colid","colorspace","xdpi","ydpi","unit","md5hash",'
    .. '"filename_forsort","cnt","date_create","date_change","file_type","responsecode",'
    .. '"totalassetscount","calledwith"]'
local DATE = '"November, 21 2026 02:45:02"'
local ROW = '["%s",%s,"%s","Sync","bin","dummy",%s,"doc","bin","%s",null,null,"%d",%d,0,0,"0",null,null,'
    .. DATE .. "," .. DATE .. ',null,"http://127.0.0.1/assets/%s","0",null,"","","","","%s",%s,"1",'
    .. DATE .. "," .. DATE .. ',"",0,1,"%s"]'
local UPLOADED = '<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n<responsecode>0</responsecode>\n'
    .. "<message>success</message>\n<assetid>%s</assetid>\n<filetype>doc</filetype>\n</Response>\n"
local COUNTED = '{"uploads":%d,"searches":%d,"indexing":%d,"connections":%d,"first":%.3f,"last":%.3f}'

local delay, lag = 0, 0
local assets, by_id = {}, {}
local searches, indexing, connections, first, last = 0, 0, 0, 0, 0

-- Begin to serve: each upload is answered after `answers_after` seconds, and in the index after `shows_after`.
function sink.begin(answers_after, shows_after)
    delay, lag = answers_after, shows_after
end

local function now()
    ngx.update_time()
    return ngx.now()
end

local function answer(content_type, body)
    ngx.header.content_type = content_type
    ngx.header.content_length = #body
    ngx.print(body)
end

local function note_connection()
    if ngx.var.connection_requests == "1" then
        connections = connections + 1
    end
end

function sink.upload()
    note_connection()
    ngx.req.read_body()
    local body, head = ngx.req.get_body_data(), ngx.var.content_type or ""
    local boundary = head:match("boundary=([^;]+)") or ""
    local _, named, name = (body or ""):find('filename="([^"]*)"')
    local _, start = (body or ""):find("\r\n\r\n", named or 1, true)
    local close = "\r\n--" .. boundary .. "--\r\n"
    if not named or not start or body:sub(-#close) ~= close then
        return ngx.exit(400)
    end
    local content = body:sub(start + 1, -#close - 1)
    local id = ("%032X"):format(#assets + 1)
    local folder = body:match('name="destfolderid".-\r\n\r\n([^\r]*)\r\n') or ""
    last = now()
    first = first > 0 and first or last
    local asset = { id = id, name = name, folder = folder, size = #content, md5 = ngx.md5(content):upper(), at = last }
    assets[#assets + 1], by_id[id] = asset, asset
    if delay > 0 then
        ngx.sleep(delay)
    end
    answer("application/xml;charset=UTF-8", UPLOADED:format(id))
end

local function row(asset)
    local path = asset.folder .. "/doc/" .. asset.id
    local name = '"' .. asset.name:gsub('[\\"]', "\\%0") .. '"'
    return ROW:format(
        asset.id, name, asset.folder, name, path, asset.size, asset.size, path, asset.md5, name, asset.id
    )
end

-- Return the Lua pattern of an SQL LIKE pattern, in small letters.
local function like(asked)
    local pattern = asked:lower():gsub("\\?.", function(c)
        if c == "%" or c == "_" then
            return c == "%" and ".*" or "."
        end
        return c:sub(-1):gsub("%W", "%%%0")
    end)
    return "^" .. pattern .. "$"
end

function sink.search()
    note_connection()
    ngx.req.read_body()
    local form = ngx.req.get_post_args()
    if form.assetid then
        -- A call of searchIndex, without effect: the index shows each asset by itself.
        indexing = indexing + 1
        return answer("application/json", '{"responsecode":0,"message":"Indexing successfully triggered"}')
    end
    searches = searches + 1
    local rows, asked, folder = {}, form.searchfor, form.folderid or ""
    if asked:find("id:", 1, true) then
        local known = now() - lag
        for id in asked:gmatch("id:([%w-]+)") do
            local asset = by_id[id]
            if asset and asset.at <= known then
                rows[#rows + 1] = row(asset)
            end
        end
    else
        local pattern = like(asked)
        for _, asset in ipairs(assets) do
            if (folder == "" or asset.folder == folder) and asset.name:lower():find(pattern) then
                rows[#rows + 1] = row(asset)
            end
        end
    end
    answer(
        "application/json;charset=ISO-8859-1",
        '{"COLUMNS":' .. COLUMNS .. ',"DATA":[' .. table.concat(rows, ",") .. "]}"
    )
end

-- Answer what has been asked so far; `first` and `last` are when uploads were received, in seconds since the epoch.
function sink.counted()
    answer("application/json", COUNTED:format(#assets, searches, indexing, connections, first, last))
end

return sink
